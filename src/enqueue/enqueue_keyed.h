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
    int64 new_id;           // the id that the job gets if it is inserted; 0: the next id of the sequence

    int64 id = 0;          // out: new_id, or the id of the job that has the key
    bool is_new = false;   // out
    bool is_over = false;  // out, if not new: the job has finished and keeps the key; its row may no longer exist
};

// Enqueues jobs by SQL, in the order of their keys, so that two calls cannot deadlock. If another job has a key,
// spec.on_conflict decides what happens. Waits for open transactions that have enqueued a job with one of the keys.
// Takes attributes that differ between the jobs from `jobs`, not from `spec`. The caller has checked that the queue has
// room (enqueue/admission.h). Raises 40001 in REPEATABLE READ and above if INSERT ... ON CONFLICT DO NOTHING would, or
// if a job with one of the keys has finished since the snapshot and keeps its key.
void enqueue_keyed(const JobSpec &spec, KeyedJob *jobs, int count, TimestampTz now);

// Returns whether the job has steps, which means that it has begun to run. on_conflict = 'replace' takes the key from
// such a job, as from a running job, instead of changing the job.
bool has_steps(int64 id);

}  // namespace jobq
