// Handles the reports of a worker on jobs that it holds. Each job is looked up by its id. A worker holds a job if the
// job is processing under the lease that the worker passes (the fencing token) and is in a queue in the worker's scope.
//
// Rows are locked in the order of (id, lease). Callers must sort the jobs in this order, so that two batches with the
// same jobs cannot deadlock.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "finish/attempt_outcome.h"
#include "job/change_job.h"
#include "queues/scope.h"

namespace jobq {

// A job and a lease from a worker's report, and the outcome of the report.
struct HeldJob {
    int64 id;
    int64 lease;
    int position;  // position in the caller's arrays
    Datum extra;   // result (jsonb) or error (text)
    bool has_extra;
    Datum details;           // failed jobs: details of the error (jsonb); 0 if none
    bool held;               // out: the lease was the current one
    bool cancel;             // out, heartbeats: a cancellation was requested
    core::Unheld unheld;     // out, heartbeats: why the lease is not held
    core::JobStatus status;  // out: the job's new status
};

// Reads the job into table.row and, if is() returns true for this row, calls change(before). Returns false if the job
// does not exist or is() returns false. change() waits for a session that has locked the row. If the row has changed in
// the meantime, change() returns false, and this function starts again.
template <typename Is, typename Change>
bool change_while(JobsTable *jobs, int64 id, Is is, Change change) {
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        if (!find_job(jobs, id) || !is()) return false;
        if (change(state_of(*jobs))) return true;
        renew_snapshot(jobs);
    }
}

// Error context callback that adds a hint to serialization errors. In REPEATABLE READ and above, such an error is
// raised if the row has changed since the snapshot was taken.
void add_report_hint(void *);

// Opens the table, and calls change(jobs, before, job) for each of the given jobs that the worker holds. Returns
// whether the worker holds all of them.
template <typename Change>
bool change_held(HeldJob *held, int count, const QueueScope *scope, Change change) {
    JobsTable jobs;
    bool all = true;
    ErrorContextCallback context = {error_context_stack, add_report_hint, nullptr};
    error_context_stack = &context;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (HeldJob *job = held; job < held + count; job++) {
        job->held = change_while(
            &jobs, job->id, [&] { return runs_under(jobs, job->lease) && is_in_scope(scope, jobs); },
            [&](const JobState &before) { return change(&jobs, before, job); });
        all &= job->held;
    }
    close_jobs(&jobs);
    error_context_stack = context.previous;
    return all;
}

// Returns the job whose id is the first argument of the SQL function and whose lease is the argument with the number
// `lease_argument`. If the lease is NULL, returns the lease under which this transaction has claimed the job; raises
// 22004 if this transaction has not claimed the job.
HeldJob held_argument(FunctionCallInfo fcinfo, int lease_argument);

// Error code JQ001: the worker no longer holds the lease, so its work in this transaction must be rolled back.
constexpr int kErrcodeLeaseLost = MAKE_SQLSTATE('J', 'Q', '0', '0', '1');
#define JOBQ_LOST_HINT \
    "Another worker has the job, or the job was finished or deleted. Roll back and discard this work."
[[noreturn]] void lease_is_lost(int64 job);

// Completes the jobs that the worker holds; HeldJob::extra is the result.
void complete_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now);

// Records a failed attempt of each job that the worker holds; HeldJob::extra is the error, and HeldJob::details are its
// details. If `retry_in` is negative, uses the queue's backoff.
void fail_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros retry_in, bool wants_retry,
               TimestampTz now);

// Like fail_jobs(), but for a single job whose handler was stopped. If the job has exceeded max_runtime, the attempt
// ends as an overrun.
void fail_stopped_job(HeldJob *held, TimestampTz now);

// Releases the jobs that the worker holds. Their attempts do not count. If `delay` is 0, the jobs are claimable
// immediately, at their previous position in the queue.
void give_back_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros delay, AttemptOutcome outcome,
                    TimestampTz now);

// Extends the leases that the worker holds; HeldJob::extra is the progress. For each job, sets `held`. Also sets
// `cancel` if the worker holds the job, or `unheld` if it does not.
void heartbeat_jobs(HeldJob *held, int count, const QueueScope *scope);

// Extends the leases of all jobs that a worker holds, including jobs that plain SQL has set to processing with the id
// of this worker. Returns the number of these jobs, and sets *held to the jobs, ordered by id. Call it inside
// with_spi().
int heartbeat_worker(text *worker_id, const QueueScope *scope, HeldJob **held);

}  // namespace jobq
