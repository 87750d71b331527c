// Cancels, retries, reschedules, and deletes jobs that are selected by their ids or by a filter. The caller needs no
// lease on the jobs. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"
#include "core/life.h"
#include "queues/scope.h"
#include "row/locked_jobs.h"

namespace jobq {

enum class Operation { Cancel, Retry, Reschedule, Delete };

// Conditions that select jobs in a queue. An absent condition matches all jobs.
struct JobFilter {
    text *queue;
    text *kind;        // nullptr: any
    Datum statuses;    // text[]
    text *error_like;  // nullptr: any
    bool has_created_before;
    TimestampTz created_before;
    Datum metadata;  // jsonb that the job's metadata must contain
    bool has_metadata;
    text *concurrency_key;  // nullptr: any
    text *group_key;        // nullptr: any
    bool has_version;
    int32 version;
    core::OptInt64 batch_id;  // empty: any
    int64 max_jobs;
    const QueueScope *scope;  // for Retry: dead letters are moved back only to these queues
};

// Returns whether the operation can change a job in this status.
bool operation_applies(Operation operation, core::JobStatus status);
// Locks the jobs in scope that the operation can change, and skips all other jobs. Returns rows with LOCKED_COLUMNS.
// For a retry, a dead letter is in scope if the queue to which it moves back is in scope.
Rows lock_applicable(Operation operation, Datum ids, const QueueScope *scope);

// A statement that locks the selected jobs except those that other transactions have locked, and a statement with the
// same parameters that finds one of the selected jobs, even if it is locked.
struct UnheldJobs {
    Statement lock, find;
};
// Locks the selected jobs and skips those that other transactions have locked. Returns no rows only if there are no
// such jobs, or if other transactions than duties have locked all of them: if necessary, waits for the duties that are
// running. Otherwise, a caller that repeats a call until it changes no jobs could end early, because a duty locks a job
// for a moment.
Rows lock_unheld(UnheldJobs *jobs, const Params &params);

// Performs the operation on the jobs that it can change, and skips all other jobs. Returns the number of changed jobs
// and their new status or, for Delete, their previous status. `run_at` is used only for Reschedule. For Retry, call
// retry_job() (retry.h).
Operated operate(Operation operation, Datum ids, const QueueScope *scope, TimestampTz run_at, TimestampTz now);
// Performs the operation on many jobs, which lock_matching() has locked. A retry skips jobs whose unique key is held by
// another job. Returns how many jobs were changed.
int64 operate_on_many(Operation operation, Datum ids, TimestampTz run_at, TimestampTz now);

// Locks the jobs that match the filter and returns their ids in ascending order. Skips jobs that another transaction
// has locked, and jobs that the operation would not change: running jobs that have already been asked to stop, finished
// jobs whose unique key another job has taken, and jobs that are already scheduled for `run_at`.
Rows lock_matching(const JobFilter &filter, Operation operation, TimestampTz run_at, TimestampTz now);

}  // namespace jobq
