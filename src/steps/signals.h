// The rows of jobq.signals and jobq.job_signals. A signal is a fact: of several with the same name, the first one
// stays. The commit publishes which jobs may be unblocked by it.
//
// All functions are called inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// Return false if the signal was sent before. They wait for a transaction that is sending the same signal.
bool add_signal(text *queue, text *event, bool has_payload, Datum payload);
bool add_job_signal(int64 job, text *event, bool has_payload, Datum payload);

// A signal that a job can see. Signals to the job come before signals to its queue. `snapshot`: see read().
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

// Looks at up to `batch` signals to queues that were sent before `sent_before`, and deletes those that no job awaits.
// Also deletes signals to jobs that no longer exist. Returns whether there may be more such signals to queues.
bool prune_signals(TimestampTz sent_before, int batch);

}  // namespace jobq
