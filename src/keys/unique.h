// The store, unique jobs: who has a key, and jobs that are enqueued with one. Of the unfinished jobs of a queue one may
// have a key: the index on jobq.jobs.unique_key sees to it.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"
#include "job/job_policy.h"

namespace jobq {

// A key that a job is to have, and who has it.
struct WantedKey {
    text *queue;
    text *unique_key;
    int64 own;               // the job, 0: a new one. A key that it has kept itself is free to it
    int64 holder;            // out: the job that has the key, 0: none
    core::JobStatus status;  // out: of an unfinished holder
    TimestampTz until;       // out: until when a finished holder keeps the key; 0: the holder is unfinished
};

// Fills in who has the keys, by a fresh snapshot or the transaction's. Inside with_spi().
void find_holders(WantedKey *keys, int count, TimestampTz now);

// 23505, naming the key and who has it. `hint`: what to do when that job is unfinished.
[[noreturn]] void key_taken(const WantedKey &key, const char *hint);

// A job that somebody has changed or inserted by hand holds a key now, by the index: 23505 when another keeps it, or
// holds it in a table that inherits jobq.jobs. 40001 in REPEATABLE READ and above when it does so since the snapshot.
// Inside with_spi().
void refuse_kept_key(int64 job, std::string_view queue, std::string_view unique_key);

// A job to be enqueued, and what came of it.
struct KeyedJob {
    text *unique_key;  // nullptr: none
    Datum payload;     // jsonb
    TimestampTz run_at;
    int16 priority;
    int64 new_id;           // if it is made; 0: the next one
    int64 id;               // out: new_id, or the id of the job that has the key
    bool is_new;            // out
    text *concurrency_key;  // nullptr: none
    text *group_key;        // nullptr: none
};

// Enqueues jobs by SQL, in the order of their keys, so that two calls cannot deadlock. Where a key is taken,
// spec.on_conflict decides. Waits for transactions that have enqueued one of the keys and not ended. What differs
// between the jobs is in `jobs`, not in `spec`. Whether the queue has room is decided before (enqueue/admission.h).
// 40001 in REPEATABLE READ and above, where an INSERT ... ON CONFLICT DO NOTHING would raise it, and when a key was
// kept, or taken in a table that inherits jobq.jobs, since the snapshot.
void enqueue_keyed(const JobSpec &spec, KeyedJob *jobs, int count, TimestampTz now);

}  // namespace jobq
