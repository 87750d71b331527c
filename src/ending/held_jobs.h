// What a worker reports on jobs that it holds. Each job is looked up by its id, and the row
// must be processing under the lease that the worker names: the fence. A job out of scope is not held.
//
// Rows are locked in the order of (id, lease): callers sort, so that two batches in opposite orders cannot deadlock.
#pragma once

#include "compat/pg.h"
#include "ending/attempt_outcome.h"
#include "job/change_job.h"
#include "job/job_policy.h"
#include "queues/scope.h"

namespace jobq {

// A job named by a worker together with the lease it believes to hold, and what came of it.
struct HeldJob {
    int64 id;
    int64 lease;
    int position;  // where it stood in the caller's arrays
    Datum extra;   // result (jsonb) or error (text)
    bool has_extra;
    bool held;               // out: the lease was the current one
    bool cancel;             // out, heartbeats: a cancellation was asked for
    core::Unheld unheld;     // out, heartbeats, where it is not held: why
    core::JobStatus status;  // out: the job's new status
};

// Calls change(before) for a job that is(), in table.row. False when it is not. change() waits for whoever has the row
// locked; when it answers false, the row has changed meanwhile: look again.
template <typename Is, typename Change>
bool change_while(JobsTable *jobs, int64 id, Is is, Change change) {
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        if (!find_job(jobs, id) || !is()) return false;
        if (change(state_of(*jobs))) return true;
        renew_snapshot(jobs);
    }
}

// For an ErrorContextCallback: says what to do about a snapshot of REPEATABLE READ and above that is older than the
// row.
void add_report_hint(void *);

// Calls change(jobs, before, job) with each of these jobs that is held, in an open table of its own. Returns whether
// all are.
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

// The job that the first argument names, under the lease of that number. A NULL lease: that of this very transaction's
// claim; 22004 where there is none.
HeldJob held_argument(FunctionCallInfo fcinfo, int lease_argument);

// JQ001: a worker wanted the lease to hold, so that what it has done in this transaction is undone.
constexpr int kErrcodeLeaseLost = MAKE_SQLSTATE('J', 'Q', '0', '0', '1');
#define JOBQ_LOST_HINT "Another worker has the job, or it was finished or deleted. Roll back and drop this work."
[[noreturn]] void lease_is_lost(int64 job);

// processing -> completed, where held; `extra` is the result.
void complete_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now);

// A failed attempt: `extra` is the error. `retry_in` < 0: by the queue's backoff.
void fail_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros retry_in, bool wants_retry,
               TimestampTz now);

// The same of a job that was stopped: has it taken longer than its max_runtime allows, that is how its attempt ends.
void fail_stopped_job(HeldJob *held, TimestampTz now);

// Gives jobs back without burning the attempt; `delay` 0: claimable at once in their old place.
void give_back_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros delay, AttemptOutcome outcome,
                    TimestampTz now);

// Extends the leases that are held; `extra` is the progress. Fills held and cancel, or unheld.
void heartbeat_jobs(HeldJob *held, int count, const QueueScope *scope);

// Extends the leases of every job of a worker, and of those that were set to processing by hand in its name. Returns
// how many, in *held, in the order of their ids. Inside with_spi().
int heartbeat_worker(text *worker_id, const QueueScope *scope, HeldJob **held);

}  // namespace jobq
