// What is done to jobs by id or by filter, whoever holds them. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"
#include "queues/scope.h"
#include "row/locked_jobs.h"

namespace jobq {

enum class Operation { Cancel, Retry, Reschedule, Delete };

// Which jobs of a queue; absent parts match all.
struct JobFilter {
    text *queue;
    text *kind;        // nullptr: any
    Datum statuses;    // text[]
    text *error_like;  // nullptr: any
    bool has_created_before;
    TimestampTz created_before;
    Datum metadata;  // jsonb, contained in the job's
    bool has_metadata;
    text *concurrency_key;  // nullptr: any
    text *group_key;        // nullptr: any
    bool has_version;
    int32 version;
    int64 max_jobs;
    const QueueScope *scope;  // of Retry: dead letters go back only to these queues
};

// Whether the operation changes a job of this status.
bool operation_applies(Operation operation, core::JobStatus status);
// Locks those of the jobs that it applies to and that are in scope: rows of LOCKED_COLUMNS. A retried dead letter goes
// home: that queue counts for it.
Rows lock_applicable(Operation operation, Datum ids, const QueueScope *scope);

// Applies the operation to these jobs where it applies. The status is the new one, for Delete the one it had. `run_at`
// is for Reschedule. Retry raises 23505 for a job whose unique key another has.
Operated operate(Operation operation, Datum ids, const QueueScope *scope, TimestampTz run_at, TimestampTz now);
// The same for many that lock_matching() has locked: Retry leaves such jobs out. Returns how many were changed.
int64 operate_on_many(Operation operation, Datum ids, TimestampTz run_at, TimestampTz now);

// The ids of the jobs that match, lowest first, locked. Passed over are jobs that another transaction holds and those
// that the operation would not change: running jobs that have been asked to stop, finished ones whose unique key
// another has by now, jobs that wait for `run_at` already.
Rows lock_matching(const JobFilter &filter, Operation operation, TimestampTz run_at, TimestampTz now);

// The result of a completed job, which may be NULL; no row when there is no such job.
Rows read_result(int64 job_id);

// The columns of jobq_get; no row when there is no such job.
Rows read_job(int64 job_id);

// The columns of jobq_log, in the order of time; no row when there is no such job.
Rows read_log(int64 job_id);

}  // namespace jobq
