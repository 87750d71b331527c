// Inserts jobs into jobq.jobs for the SQL functions that enqueue jobs.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"
#include "core/life.h"
#include "core/unique_key.h"
#include "edges/dependency_policy.h"
#include "enqueue/attributes.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

namespace jobq {

// A job to enqueue, whose attributes have been checked. Its pointers point into the caller's memory context.
struct JobSpec {
    text *queue;
    text *kind;
    Datum payload;  // jsonb
    int16 priority;
    TimestampTz run_at;
    int32 max_attempts;
    int32 version;
    Datum optional[kOptionalAttributes];  // Datum(0): none
    core::OptInt64 expires_at;            // if this has a value, expires_in is not used
    core::OptInt64 expires_in;            // counts from run_at; 0: the job does not expire
    // The following members are for jobs with a unique key (enqueue/enqueue_keyed.h).
    text *unique_key;  // nullptr: none
    core::OnConflict on_conflict;
    text *concurrency_key;  // nullptr: none
    text *group_key;        // nullptr: none
    // The dependencies of the job (edges/dependencies.h). A job with dependencies is inserted as `blocked`.
    int64 *depends_on;  // in ascending order
    int depends_on_count;
    core::OnDependencyFailure on_dependency_failure;
    // The number of the last saved step. Only a copy of a job has steps when it is enqueued; it has no unique key.
    core::OptInt64 last_step;
};

// Returns the capabilities that the job requires of its worker, or nullptr if it requires none.
inline ArrayType *required_by(const JobSpec &spec) {
    return spec.optional[kRequires] == Datum(0) ? nullptr : DatumGetArrayTypeP(spec.optional[kRequires]);
}

// Returns the named limits of the job, or nullptr if it has none.
inline ArrayType *limits_of(const JobSpec &spec) {
    return spec.optional[kLimits] == Datum(0) ? nullptr : DatumGetArrayTypeP(spec.optional[kLimits]);
}

// A text attribute that can have a different value for each job of a call. `values` is nullptr if all jobs share one
// value.
struct TextColumn {
    const Datum *values;
    const bool *nulls;
};
// Returns the value of the i-th job, or nullptr if the job has no value. If all jobs share one value, returns `shared`.
inline text *text_in(const TextColumn &column, text *shared, int i) {
    if (column.values == nullptr) return shared;
    return column.nulls[i] ? nullptr : DatumGetTextPP(column.values[i]);
}

// Attributes that can differ between the jobs of a call. A member is nullptr if all jobs have the value in the JobSpec.
struct JobColumns {
    const Datum *payloads;              // jsonb
    const Datum *run_ats = nullptr;     // timestamptz
    const Datum *priorities = nullptr;  // int4, checked to fit smallint
    TextColumn concurrency_keys = {};
    TextColumn group_keys = {};
};

// Inserts jobs without a unique key into the open table. Stores their ids in `ids`, in the order of the payloads.
void insert_jobs(JobsTable *jobs, const JobSpec &spec, const JobColumns &columns, int count, TimestampTz now,
                 int64 *ids);

// Returns the time at which a job with this run_at expires, or no value if it does not expire.
core::OptInt64 expiry_of(const JobSpec &spec, TimestampTz run_at);

// Returns the life (status and times) of a new job. unique_key and group_key are nullptr if the job has none.
core::Life life_of_new_job(const JobSpec &spec, TimestampTz run_at, const text *unique_key, const text *group_key,
                           TimestampTz now);

}  // namespace jobq
