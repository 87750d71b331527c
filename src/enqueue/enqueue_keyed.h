// Jobs that are enqueued with a unique key.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"

namespace jobq {

// A job to be enqueued, and what came of it.
struct KeyedJob {
    text *unique_key;  // nullptr: none
    Datum payload;     // jsonb
    TimestampTz run_at;
    int16 priority;
    text *concurrency_key;  // nullptr: none
    text *group_key;        // nullptr: none
    int64 new_id;           // if it is made; 0: the next one

    int64 id = 0;          // out: new_id, or the id of the job that has the key
    bool is_new = false;   // out
    bool is_over = false;  // out, of one that is not new: it has finished and keeps the key; it may be gone
};

// Enqueues jobs by SQL, in the order of their keys, so that two calls cannot deadlock. Where a key is taken,
// spec.on_conflict decides. Waits for transactions that have enqueued one of the keys and not ended. What differs
// between the jobs is in `jobs`, not in `spec`. Whether the queue has room is decided before (enqueue/admission.h).
// 40001 in REPEATABLE READ and above, where an INSERT ... ON CONFLICT DO NOTHING would raise it, and when a key was
// kept since the snapshot.
void enqueue_keyed(const JobSpec &spec, KeyedJob *jobs, int count, TimestampTz now);

// Whether a job has begun: then its key is taken from it by who replaces it, as from one that runs.
bool has_steps(int64 id);

}  // namespace jobq
