// The rows of jobq.signals and jobq.job_signals: facts, of which the first stays. Who gets one is told at the commit.
//
// All of it inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// False: somebody has sent it before. Waits for who is sending it.
bool add_signal(text *queue, text *event, bool has_payload, Datum payload);
bool add_job_signal(int64 job, text *event, bool has_payload, Datum payload);

// One that a job may see, its own before that of its queue; `snapshot`: see read().
struct Signal {
    bool there;
    Datum payload;  // jsonb
    bool has_payload;
};
Signal find_signal(int64 job, text *queue, text *event, Snapshot snapshot);

bool delete_signals_of_queue(text *queue);  // whether there were any
void delete_job_signals(Datum *ids, int count);
void delete_all_job_signals();
void move_job_signals(int64 from, int64 to);

// Looks at signals to queues from before that time, up to `batch` of them, and deletes those that no job awaits, and
// signals to jobs that are gone. Returns whether there may be more of the first.
bool prune_signals(TimestampTz sent_before, int batch);

}  // namespace jobq
