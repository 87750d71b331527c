// The store, workers' side: what a worker reports on jobs it holds, and how an attempt ends otherwise.
// All functions inside with_spi(), but for those that go below SQL. Rows are locked in the order of (id, lease):
// callers sort, so that two batches in opposite orders cannot deadlock. A job out of scope is not held.
#pragma once

#include "core/job.h"
#include "pg/pg.h"
#include "pg/spi.h"
#include "store/directory.h"
#include "store/scope.h"

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

// Below SQL: the current lease of a job that this very transaction has claimed; 22004 in every other case.
int64 lease_claimed_here(int64 job_id);

// Below SQL: processing -> completed, where held.
void complete_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now);

// Below SQL: extends the leases that are held; `extra` is the progress. Fills held and cancel, or unheld.
void heartbeat_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now);

// Of leases that are not held: finds out why. A job that is not in scope is gone.
void explain_unheld(HeldJob *jobs, int count, const QueueScope *scope);

// Extends the leases of every job of a worker. Returns the rows (id, cancel requested).
Rows heartbeat_worker(text *worker_id, const QueueScope *scope, TimestampTz now);

// A failed attempt: `extra` is the error. `retry_in` < 0: by the queue's backoff.
void fail_jobs(HeldJob *jobs, int count, const QueueScope *scope, core::Micros retry_in, bool wants_retry,
               TimestampTz now);

// Gives jobs back without burning the attempt; `delay` 0: claimable at once in their old place.
void give_back_jobs(HeldJob *jobs, int count, const QueueScope *scope, core::Micros delay, const char *outcome,
                    TimestampTz now);

// What must be known of a running job to end its attempt: columns for a SELECT from jobq.jobs j, and their numbers.
#define RUNNING_COLUMNS(lease)                                                                                   \
    "j.id, " lease                                                                                               \
    ", j.attempts, j.max_attempts, j.lost_attempts, j.queue, j.run_at, j.cancel_requested_at IS "                \
    "NOT NULL, coalesce(j.lease_timeout, interval '60 seconds'), j.lane, j.priority, j.unique_for IS NOT NULL, " \
    "j.queue_slot, j.key_slot, "                                                                                 \
    "j.concurrency_key, j.group_active"
enum RunningColumn {
    kId = 1,
    kLease,
    kAttempts,
    kMaxAttempts,
    kLostAttempts,
    kQueue,
    kRunAt,
    kCancelRequested,
    kLeaseTimeout,
    kLane,
    kPriority,
    kKeepsKey,
    kQueueSlot,
    kKeySlot,
    kConcurrencyKey,
    kActiveGroup,
    kRunningEnd  // the first column behind these
};

// How one attempt ends without completing.
struct EndedAttempt {
    int64 id;
    int64 lane;
    int16 priority;
    std::string_view queue;
    int64 lease;
    int32 attempt;           // its number
    core::JobStatus status;  // the job's new status
    TimestampTz run_at;
    int32 attempts;  // counted from now on
    int32 lost_attempts;
    const char *outcome;  // as in jobq.attempts
    bool reported;        // by the worker that had the lease
    text *error;          // nullptr: none
    core::Micros keep;    // how long the queue keeps the job if it is finished now
    bool can_be_buried;   // the queue has a dead letter queue
    bool keeps_key;       // it may have a unique key that outlives it
    int64 queue_slot;     // 0: none
    int64 key_slot;
    std::string_view concurrency_key;  // empty: none
    bool has_group;                    // it has its turn in this group
    int64 group;
};

// The attempt that such a row shows; its new status is the caller's to decide.
EndedAttempt ended_of(const Row &row, const Queue &queue, const char *outcome);

// Of a failed attempt that is to be retried: when. `retry_in` < 0: by the queue's backoff.
void delay_retry(EndedAttempt *attempt, const Queue &queue, core::Micros retry_in, TimestampTz now);

// Ends attempts whose rows the caller has locked, and records them in jobq.attempts.
void end_attempts(const EndedAttempt *ended, int count, TimestampTz now);

// Deletes the attempts of jobs that somebody deleted by hand; all attempts.
void delete_attempts(Datum *ids, int count);
void delete_all_attempts();

// Deletes jobs and their attempts, whatever their status, but for those on which unfinished jobs depend. `ids` is
// changed.
void delete_jobs_and_attempts(Datum *ids, int count);

}  // namespace jobq
