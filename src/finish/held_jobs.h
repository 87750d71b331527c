// Handles what a worker reports on jobs that it holds. Each job is looked up by its id, and its row must be processing
// under the lease that the worker names: the fence. A job out of scope is not held.
//
// Rows are locked in the order of (id, lease). Callers sort, so that two batches in opposite orders cannot deadlock.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "finish/attempt_outcome.h"
#include "job/change_job.h"
#include "queues/scope.h"

namespace jobq {

// A job that a worker names with the lease it believes to hold, and the result of the report.
struct HeldJob {
    int64 id;
    int64 lease;
    int position;  // position in the caller's arrays
    Datum extra;   // result (jsonb) or error (text)
    bool has_extra;
    bool held;               // out: the lease was the current one
    bool cancel;             // out, heartbeats: a cancellation was requested
    core::Unheld unheld;     // out, heartbeats: why the lease is not held
    core::JobStatus status;  // out: the job's new status
};

// Calls change(before) for a job in table.row for which is() holds. Returns false if is() does not hold. change() waits
// for a session that has locked the row. It returns false if the row has changed in the meantime, and then the job is
// looked up again.
template <typename Is, typename Change>
bool change_while(JobsTable *jobs, int64 id, Is is, Change change) {
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        if (!find_job(jobs, id) || !is()) return false;
        if (change(state_of(*jobs))) return true;
        renew_snapshot(jobs);
    }
}

// Adds a hint to serialization errors in REPEATABLE READ and above, when the snapshot is older than the row. For an
// ErrorContextCallback.
void add_report_hint(void *);

// Calls change(jobs, before, job) for each of these jobs that is held, in a table that it opens. Returns whether all
// are held.
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

// Returns the job in the first argument with the lease in argument `lease_argument`. A NULL lease means the lease of
// this transaction's claim; raises 22004 if there is none.
HeldJob held_argument(FunctionCallInfo fcinfo, int lease_argument);

// JQ001: a worker required the lease to be held, so its work in this transaction must be undone.
constexpr int kErrcodeLeaseLost = MAKE_SQLSTATE('J', 'Q', '0', '0', '1');
#define JOBQ_LOST_HINT \
    "Another worker has the job, or the job was finished or deleted. Roll back and discard this work."
[[noreturn]] void lease_is_lost(int64 job);

// Completes the jobs that are held; `extra` is the result.
void complete_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now);

// Records a failed attempt; `extra` is the error. A negative `retry_in` uses the queue's backoff.
void fail_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros retry_in, bool wants_retry,
               TimestampTz now);

// Does the same for a job that was stopped. If it has exceeded max_runtime, its attempt ends as an overrun.
void fail_stopped_job(HeldJob *held, TimestampTz now);

// Gives jobs back without counting the attempt. With `delay` 0, they are claimable at once in their old place.
void give_back_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros delay, AttemptOutcome outcome,
                    TimestampTz now);

// Extends the held leases; `extra` is the progress. Sets `held` and `cancel`, or `unheld`.
void heartbeat_jobs(HeldJob *held, int count, const QueueScope *scope);

// Extends the leases of all jobs of a worker, including jobs that were set to processing in its name with plain SQL.
// Returns their number and, in *held, the jobs ordered by id. Call it inside with_spi().
int heartbeat_worker(text *worker_id, const QueueScope *scope, HeldJob **held);

}  // namespace jobq
