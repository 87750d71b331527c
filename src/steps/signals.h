// Reads and writes jobq.signals and jobq.job_signals. If several signals with the same name are sent, the first one is
// kept. The commit of a signal publishes it, so that the promoter unblocks the jobs that await it.
//
// All functions are called inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// Return false if the signal has already been sent. They wait for an open transaction that is sending the same signal.
bool add_signal(text *queue, text *event, bool has_payload, Datum payload);
bool add_job_signal(int64 job, text *event, bool has_payload, Datum payload);

// A signal that a job can see. A signal to the job takes precedence over a signal to its queue. `snapshot`: see read().
struct Signal {
    bool there;
    Datum payload;  // jsonb
    bool has_payload;
};
Signal find_signal(int64 job, text *queue, text *event, Snapshot snapshot);

bool delete_signals_of_queue(text *queue);  // returns whether there were any
void delete_job_signals(Datum *ids, int count);
void delete_all_job_signals();
void move_job_signals(int64 from, int64 to);

// Checks up to `batch` signals to queues that were sent before `sent_before`, and deletes the signals that no job
// awaits. Also deletes some signals to jobs that no longer exist. Returns whether there may be more signals to queues
// to check.
bool prune_signals(TimestampTz sent_before, int batch);

}  // namespace jobq
