// Reads and writes jobq.signals and jobq.job_signals. If several signals with the same name are sent to the same queue
// or job, only the first signal is kept. The commit that sends a signal publishes the signal, so that the promoter
// unblocks the jobs that await it.
//
// Call all functions inside with_spi(), with the owner's privileges.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// add_signal() stores a signal to a queue and returns the id of the signal, or 0 if the same signal has already been
// sent. add_job_signal() stores a signal to a job, or returns false if the same signal has already been sent. Both
// functions wait for an open transaction that is sending the same signal.
int64 add_signal(text *queue, text *event, bool has_payload, Datum payload);
bool add_job_signal(int64 job, text *event, bool has_payload, Datum payload);

// A signal that a job can see. A signal to the job takes precedence over a signal to its queue. `snapshot` has the same
// meaning as in read() (compat/spi.h).
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

// Checks up to `batch` signals that were sent to queues before `sent_before`, and deletes the signals that no job
// awaits. Also deletes some signals to jobs that no longer exist. Returns whether there might be more signals to queues
// that must be checked.
bool prune_signals(TimestampTz sent_before, int batch);

}  // namespace jobq
