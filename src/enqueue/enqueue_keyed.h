// Enqueues jobs with a unique key.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"

namespace jobq {

// A job to enqueue, and the outcome.
struct KeyedJob {
    text *unique_key;  // nullptr: none
    Datum payload;     // jsonb
    TimestampTz run_at;
    int16 priority;
    text *concurrency_key;  // nullptr: none
    text *group_key;        // nullptr: none
    int64 new_id;           // the id if the job is inserted; 0: the next id

    int64 id = 0;          // out: new_id, or the id of the job that has the key
    bool is_new = false;   // out
    bool is_over = false;  // out, if not new: the job has finished and keeps the key; it may no longer exist
};

// Enqueues jobs by SQL, in the order of their keys, so that two calls cannot deadlock. If a key is taken,
// spec.on_conflict decides. Waits for transactions that have enqueued one of the keys and have not ended. Attributes
// that differ between the jobs are taken from `jobs`, not from `spec`. The caller has checked that the queue has room
// (enqueue/admission.h). Raises 40001 in REPEATABLE READ and above if INSERT ... ON CONFLICT DO NOTHING would, or if a
// job has kept one of the keys since the snapshot.
void enqueue_keyed(const JobSpec &spec, KeyedJob *jobs, int count, TimestampTz now);

// Returns whether the job has steps, so it has begun. A replacement takes the key from such a job, as from a running
// job.
bool has_steps(int64 id);

}  // namespace jobq
