// See at_commit.h.
#include "compat/pg.h"

#include "claim/recent_claims.h"
#include "commit/at_commit.h"
#include "compat/settings.h"
#include "compat/transaction.h"
#include "edges/awaited_jobs.h"
#include "groups/unblocked_list.h"
#include "handlers/call_executors.h"
#include "lanes/empty_ranges.h"
#include "limits/limit_state.h"
#include "limits/throttled_ranges.h"
#include "log/logged.h"
#include "shmem/database_state.h"
#include "wait/job_waiters.h"
#include "wait/notices.h"
#include "waiters/claims.h"
#include "waiters/waiters.h"

namespace jobq {

namespace {

// Requests the unblocking of the jobs that wait for the finished jobs. A job that has completed matters only to jobs
// with an active edge to it, so it is skipped if there are no such edges. A job that has finished in any other way
// matters to all jobs that depend on it.
void unblock_followers(const TransactionLog &log) {
    if (!any_job_awaited()) return;
    if (log.finished_unknown) {
        unblock_now(nullptr, 0, bit_of(Blocker::Edge));
        return;
    }
    constexpr int kAtOnce = 64;
    Unblocked unblocked[kAtOnce];
    int count = 0;
    for (int i = 0; i < log.finished_count; i++) {
        if (log.completed[i] && !job_is_awaited(log.finished[i])) continue;
        unblocked[count++] = {log.finished[i], kFromTheFirst, Blocker::Edge};
        if (count < kAtOnce) continue;
        unblock_now(unblocked, count, 0);
        count = 0;
    }
    if (count > 0) unblock_now(unblocked, count, 0);
}

void write_extension(DatabaseState *db) {
    db->extension = Presence::Unknown;
    db->rests = core::Rest::None;
    db->not_before = 0;
}

void write_horizon(const LoggedRound &logged, DatabaseState *db) {
    if (logged.horizon_version != 0 && db->horizon_version == logged.horizon_version) db->horizon = logged.horizon;
    if (logged.lease_deadline < db->horizon.deadline) db->horizon.deadline = logged.lease_deadline;
    if (logged.lease_deadline != kNothingDue) db->horizon_version = ++shared_state()->horizon_versions;
}

// Updates the parts of the database state that are protected by the lock of the database states.
void publish_state(const LoggedRound &logged, DatabaseState *db) {
    if (!logged.extension && logged.lease_deadline == kNothingDue && logged.horizon_version == 0) return;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    if (belongs_here(db)) {
        if (logged.extension) write_extension(db);
        write_horizon(logged, db);
    }
    LWLockRelease(database_states_lock());
}

// Publishes the time at which the worker of the database must run its next round.
void publish_round(const LoggedRound &logged) {
    if (!logged.any) return;
    // While there are unfinished jobs, the worker runs a round every tick interval, even if there are no deadlines.
    const TimestampTz now = end_of_transaction();
    const TimestampTz round = now + tick_interval();
    // A deadline in the past, such as DT_NOBEGIN for "immediately", counts as due now, so that the round does not seem
    // to be late.
    const TimestampTz due = logged.extension ? now : Max(Min(logged.due, round), now);
    // No lock is needed, because the launcher checks next_due again after it has released a state.
    for_session_database([&](DatabaseState *db) {
        publish_state(logged, db);
        publish_due(db, due);
    });
}

void publish_databases() {
    pg_atomic_write_u32(&shared_state()->databases_changed, 1);
    wake_launcher();
}

bool notices_wanted() { return settings.notify && settings.enabled; }

// Wakes one sleeper to scan the table. Called for each slot that becomes free.
void let_one_look(const char *queue) { let_some_waiters_look(queue, 1); }

void wake_anybody() {
    let_all_waiters_look();
    if (notices_wanted()) post_notice_of_anything();
}

}  // namespace

void publish_claimable() {
    const TransactionLog &log = transaction_log();
    for (int i = 0; i < core::kKeySpaces; i++)
        if (log.places[i].any) publish_keys(static_cast<core::KeySpace>(i), log.places[i].first, log.places[i].last);
    if (log.ready_unknown) forget_empty_ranges();
    if (log.claimed_before || log.ready_unknown) forget_recent_claims();
    if (log.ready.count == 0) return;
    const bool throttled = anything_throttled();
    for (const LoggedReady &ready : log.ready) {
        publish_keys(ready.lane, ready.first, ready.last);
        if (throttled) publish_keys(throttled_lane(ready.lane), ready.first, ready.last);
    }
}

void publish_deadlines() {
    const TransactionLog &log = transaction_log();
    publish_round(log.round);
    if (log.databases) publish_databases();
}

void wake_for_claimable() {
    const TransactionLog &log = transaction_log();
    for (const LoggedReady &ready : log.ready)
        if (ready.traits != kNoTraits)
            wake_waiters(log.queues.items[ready.queue].name, log.traits[ready.traits], ready.count);
    for (const LoggedQueue &queue : log.queues) {
        if (sleepers_look(queue)) let_waiters_look(queue.name);
        if (queue.notify && notices_wanted()) post_notice(queue.name);
    }
    if (log.ready_unknown || log.queues_unknown) wake_anybody();
}

void wake_for_freed_slots() { publish_slots(true, {let_one_look, let_all_waiters_look}); }

void wake_for_slots_not_taken() { publish_slots(false, {let_one_look, let_all_waiters_look}); }

void wake_for_claims_undone() {
    const TransactionLog &log = transaction_log();
    hand_on_failed_claim();
    if (!log.claims) return;
    const SubTransactionId undone = GetCurrentSubTransactionId();
    for (const LoggedQueue &queue : log.queues)
        if (queue.claimed_in >= undone && queue.claimed > 0) let_some_waiters_look(queue.name, queue.claimed);
    if (log.claims_unknown) let_all_waiters_look();
}

void wake_for_finished() {
    const TransactionLog &log = transaction_log();
    if (log.finished_count == 0 && !log.finished_unknown) return;
    unblock_followers(log);
    if (log.finished_unknown)
        let_all_job_waiters_look();
    else
        wake_job_waiters(log.finished, log.finished_count);
}

void forget_claims() {
    if (transaction_log().claims) forget_recent_claims();
}

void publish_prepared(PreparedEffects effects) {
    const auto has = [effects](PreparedEffects wanted) { return (effects & wanted) != 0; };
    LoggedRound round = {};
    round.any = has(kDeadlines | kReadyJobs | kLooks | kExtensionChanged);
    round.extension = has(kExtensionChanged);
    round.due = GetCurrentTimestamp();
    // The transaction might have claimed jobs, and the rescue must check the leases of these jobs.
    round.lease_deadline = has(kDeadlines) ? DT_NOBEGIN : kNothingDue;
    // A transaction with deadlines might have added entries to the indexes of due jobs, running jobs, or schedules, so
    // ranges of these indexes that were empty might now contain entries.
    if (has(kReadyJobs | kDeadlines)) forget_empty_ranges();
    if (has(kReadyJobs)) forget_recent_claims();
    publish_round(round);
    if (has(kDatabasesChanged)) publish_databases();
    if (has(kClaimedJobs)) forget_recent_claims();
    if (has(kClaimedJobs | kFreedSlots)) forget_slots();
    if (has(kReadyJobs | kLooks)) wake_anybody();
    if (has(kClaimedJobs | kFreedSlots)) let_all_waiters_look();
    if (has(kReadyJobs | kLooks | kClaimedJobs | kFreedSlots)) call_executors_for_anything();
    if (has(kFinishedJobs)) {
        if (any_job_awaited()) unblock_now(nullptr, 0, bit_of(Blocker::Edge));
        let_all_job_waiters_look();
    }
    if (has(kUnblockedJobs)) unblock_anything();
}

}  // namespace jobq
