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
    bool is_over = false;  // out, if not new: the job has finished and keeps the key; its row might no longer exist
};

// Returns the job that a spec describes.
inline KeyedJob keyed_job(const JobSpec &spec, int64 new_id) {
    return {.unique_key = spec.unique_key,
            .payload = spec.payload,
            .run_at = spec.run_at,
            .priority = spec.priority,
            .concurrency_key = spec.concurrency_key,
            .group_key = spec.group_key,
            .new_id = new_id};
}

// Enqueues jobs with SQL, in the order of their keys, so that two calls cannot deadlock. If another job has one of the
// keys, spec.on_conflict decides what happens. Waits for open transactions that have enqueued a job with one of the
// keys. Attributes that differ between the jobs are taken from `jobs`, not from `spec`. The caller must have checked
// that the queue has room (enqueue/admission.h). In REPEATABLE READ and above, raises 40001 if INSERT ... ON CONFLICT
// DO NOTHING would raise it, or if a job with one of the keys has finished since the snapshot was taken and keeps its
// key.
void enqueue_keyed(const JobSpec &spec, KeyedJob *jobs, int count, TimestampTz now);

// Returns whether the job has steps, which means that it has begun to run. on_conflict = 'replace' does not change a
// job that has steps; instead, such a job loses its key, as a running job does.
bool has_steps(int64 id);

}  // namespace jobq
