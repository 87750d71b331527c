// Inserts jobs into jobq.jobs for the functions that enqueue.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"
#include "core/life.h"
#include "core/unique_key.h"
#include "edges/dependency_policy.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

namespace jobq {

// A job to enqueue, after its attributes were checked. Pointers live in the caller's memory context.
struct JobSpec {
    text *queue;
    text *kind;
    Datum payload;  // jsonb
    int16 priority;
    TimestampTz run_at;
    int32 max_attempts;
    int32 version;
    ArrayType *required;          // may be nullptr
    Interval *heartbeat_timeout;  // nullptr: the queue's
    Interval *max_runtime;        // nullptr: the queue's
    Datum metadata;               // jsonb
    bool has_metadata;
    // For jobs with a unique key, which enqueue_keyed() enqueues (enqueue/enqueue_keyed.h).
    text *unique_key;      // nullptr: none
    Interval *unique_for;  // nullptr: as long as the job is unfinished
    core::OnConflict on_conflict;
    text *concurrency_key;  // nullptr: none
    text *group_key;        // nullptr: none
    // For a job that depends on others (edges/dependencies.h): it is inserted as `blocked`.
    int64 *depends_on;  // in ascending order
    int depends_on_count;
    core::OnDependencyFailure on_dependency_failure;
};

// A text attribute with a value per job of a call; `values` is nullptr if all jobs share one value.
struct TextColumn {
    const Datum *values;
    const bool *nulls;
};
// Returns the value of the i-th job, or nullptr if the job has no value. `shared` is the value that all jobs share.
inline text *text_in(const TextColumn &column, text *shared, int i) {
    if (column.values == nullptr) return shared;
    return column.nulls[i] ? nullptr : DatumGetTextPP(column.values[i]);
}

// Attributes that can differ between the jobs of a call; nullptr if all jobs have the value in the JobSpec.
struct JobColumns {
    const Datum *payloads;    // jsonb
    const Datum *run_ats;     // timestamptz
    const Datum *priorities;  // int4, checked to fit smallint
    TextColumn concurrency_keys;
    TextColumn group_keys;
};

// Inserts jobs without a unique key into the open table. Stores their ids in `ids`, in the order of the payloads.
void insert_jobs(JobsTable *jobs, const JobSpec &spec, const JobColumns &columns, int count, TimestampTz now,
                 int64 *ids);

// Returns the state of a new job's life (status and times). unique_key and group_key are nullptr if the job has none.
core::Life life_of_new_job(const JobSpec &spec, TimestampTz run_at, const text *unique_key, const text *group_key,
                           TimestampTz now);

}  // namespace jobq
