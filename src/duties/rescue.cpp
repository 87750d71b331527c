// The duties "rescue" and "cancel", which end an attempt in the following cases: the worker sends no heartbeats, the
// executor process has exited, the attempt takes too long, or the job continues to run after its cancellation was
// requested. The duties skip jobs that other transactions have locked.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/spi.h"
#include "duties/change_jobs.h"
#include "duties/duties.h"
#include "finish/ending.h"
#include "finish/overrun.h"
#include "handlers/orphans.h"
#include "leases/horizon.h"
#include "leases/lease_sql.h"
#include "leases/rescue_index.h"
#include "leases/running_ids.h"
#include "leases/suspects.h"
#include "leases/unindexed_search.h"
#include "leases/young_leases.h"
#include "log/rows.h"
#include "log/transaction_log.h"
#include "queues/directory.h"
#include "shmem/database_state.h"

namespace jobq {

namespace {

// The time at which a lease expires: one timeout after the last heartbeat. $2 is the start of the grace period, which
// is the last server start, promotion, abrupt change of the system clock, or end of a lock on jobq.jobs. A lease that
// began before $2 expires one timeout after $2 at the earliest, because its worker might have been unable to reach the
// server or the table. The lease of an executor never expires (handlers/orphans.h).
#define LEASE_DEADLINE \
    "CASE WHEN j._lease_timeout >= " ENDLESS_LEASE " AND j.lease IS NOT NULL THEN "     \
    "timestamptz 'infinity' ELSE "                                                           \
    "greatest(" BOUNDED_TIME("coalesce(j.last_heartbeat, j.created_at)") ", CASE "                \
    "WHEN j.started_at < $2 THEN $2 END) + " LEASE_TIMEOUT " END"

// The time at which the attempt reaches its maximum runtime, or NULL if the runtime is unlimited. The grace period
// applies here, too, because the worker might have been unable to report the end of the job.
#define RUNTIME_DEADLINE                                                                                           \
    "CASE WHEN j.started_at < $2 AND j._must_end_at IS NOT NULL THEN greatest(j._must_end_at, $2 + " LEASE_TIMEOUT \
    ") ELSE j._must_end_at END"
#define DEADLINE "least(" LEASE_DEADLINE ", " RUNTIME_DEADLINE ")"

// Locks the jobs whose lease or maximum runtime has expired, and selects whether the maximum runtime expired first.
Statement lock_expired = {"SELECT j.id, j.overran FROM " RUNNING_JOBS(
                              "$4", "$5", "j.id, coalesce(" RUNTIME_DEADLINE " < " LEASE_DEADLINE ", false) AS overran",
                              "AND " DEADLINE " < $1 ORDER BY j.id LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED") "LIMIT $3",
                          {TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8ARRAYOID, INT8ARRAYOID}};

Statement lock_overdue = {"SELECT j.id FROM " RUNNING_JOBS("$3", "$4", "j.id",
                                                           "AND j.cancel_requested_at < $1 ORDER BY j.id LIMIT $2 "
                                                           "FOR NO KEY UPDATE SKIP LOCKED") "LIMIT $2",
                          {TIMESTAMPTZOID, INT8OID, INT8ARRAYOID, INT8ARRAYOID}};

// Selects the earliest deadline of a running job, and the earliest time at which the cancellation of a running job was
// requested. $2 is the start of the grace period, as in LEASE_DEADLINE.
Statement get_horizon = {"SELECT min(j.deadline), min(j.cancel_requested_at) FROM " RUNNING_JOBS(
                             "$3", "$4", DEADLINE " AS deadline, j.cancel_requested_at", "ORDER BY j.id"),
                         {TIMESTAMPTZOID, TIMESTAMPTZOID, INT8ARRAYOID, INT8ARRAYOID}};

// Maximum age of a horizon (the earliest deadline of the running jobs). If the horizon is older, the rescue checks all
// running jobs again, because some changes are not reported.
constexpr core::Micros kLongestHorizon = core::kMinute;

Horizon find_horizon(TimestampTz grace_start, const RunningIds &ids) {
    const Rows rows =
        run(get_horizon, Params().add_null().add(TimestampTzGetDatum(grace_start)).add(ids.first).add(ids.last));
    const auto at = [&](int column) {
        return rows[0].is_null(column) ? DT_NOEND : DatumGetTimestampTz(rows[0].get(column));
    };
    return {at(1), at(2)};
}

// Returns the start of the grace period: either `grace_start` or the end of the last long lock on jobq.jobs, whichever
// is later. Ignores the end of the lock if it is in the future, which is possible if the clock has been set back.
TimestampTz lease_grace(TimestampTz grace_start) {
    const TimestampTz unlocked = jobs_unlocked_at();
    return unlocked > GetCurrentTimestamp() ? grace_start : Max(grace_start, unlocked);
}

constexpr const char *kExecutorEnded = "the process that ran its handler has ended";

const char *lost_error(const core::Life &before, const core::Life &after, int max_lost, bool in_company) {
    const core::Micros span = before.lease_timeout.value_or(core::kUsualLease);
    const bool by_executor = span >= core::kEndlessLease;
    const char *lead =
        by_executor ? kExecutorEnded : psprintf("no heartbeat for %g s", static_cast<double>(span) / core::kSecond);
    if (in_company)
        lead = psprintf("%s, together with other %s", lead, by_executor ? "executors" : "jobs of its worker");
    if (after.status != core::JobStatus::Failed) return lead;
    if (!in_company && after.lost_attempts >= max_lost)
        return psprintf("%s; lost its worker %d time%s (max_lost %d)", lead, after.lost_attempts,
                        after.lost_attempts == 1 ? "" : "s", max_lost);
    return psprintf("%s; attempts exhausted (%d of %d)", lead, after.attempts, after.max_attempts);
}

bool end_lost(JobsTable *jobs, const JobState &before, bool in_company, TimestampTz now, Endings *endings) {
    const int max_lost = settings_for(*find_queue(before.queue), before.kind).max_lost;
    core::Event event = {core::EventKind::Lost, now};
    event.in_company = in_company;
    event.max_lost = max_lost;
    event.halts_group = before.life.group_active && halts_on_failure(before);
    const core::Life after = core::after_event(before.life, event);
    text *error = cstring_to_text(lost_error(before.life, after, max_lost, in_company));
    return end_attempt(jobs, before, after, {AttemptOutcome::Lost, error, false}, now, endings);
}

// Ends an attempt without counting it. The job becomes claimable again or, if its cancellation was requested, is
// canceled.
bool end_given_back(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings) {
    const core::Life after = core::after_event(before.life, {core::EventKind::Released, now});
    const bool cancelled = after.status == core::JobStatus::Cancelled;
    return end_attempt(
        jobs, before, after,
        {cancelled ? AttemptOutcome::Cancelled : AttemptOutcome::Released, cstring_to_text(kExecutorEnded), false}, now,
        endings);
}

bool end_forced(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings) {
    text *error = cstring_to_text("cancelled while running: its worker did not stop in time");
    return end_attempt(jobs, before, core::after_event(before.life, {core::EventKind::CancelForced, now}),
                       {AttemptOutcome::Cancelled, error, false}, now, endings);
}

bool end_one(JobsTable *jobs, const RescuedAttempt &ended, TimestampTz now, Endings *endings) {
    const JobState before = state_of(*jobs);
    if (before.life.status != core::JobStatus::Processing) return true;
    switch (ended.end) {
        case core::RescueEnd::Lost:
        case core::RescueEnd::LostInCompany:
            return end_lost(jobs, before, ended.end == core::RescueEnd::LostInCompany, now, endings);
        case core::RescueEnd::GivenBack:
            return end_given_back(jobs, before, now, endings);
        case core::RescueEnd::Overran:
            return end_overrun(jobs, before, now, endings);
        case core::RescueEnd::CancelForced:
            break;
    }
    return end_forced(jobs, before, now, endings);
}

void end_all(const RescuedAttempt *ended, int count, TimestampTz now, DutyOutcome *outcome) {
    change_jobs(
        count,
        [&](int first, int n) {
            Endings endings = {};
            change_locked_jobs(
                n, [&](int i) { return ended[first + i].job; },
                [&](JobsTable *jobs, int i) { return end_one(jobs, ended[first + i], now, &endings); });
            settle_endings(endings, now);
        },
        [&](int i) { return ended[i].job; }, outcome);
}

// Ends the attempts whose executors no longer exist. Searches for such attempts in the executors' slots and, unless
// `search` is nullptr, also in the rescue's index.
void end_orphans(TimestampTz now, const RunningIds *search, int batch, DutyOutcome *outcome) {
    const Orphans orphans = lock_orphans(search, batch);
    end_all(orphans.items, orphans.count, now, outcome);
    outcome->more |= orphans.count == batch;
}

// Returns, for each of the locked jobs, whether it was lost together with other jobs of its worker. If one of these
// other jobs is still running because its lease has not expired yet, marks this job, so that it counts as lost together
// with the locked jobs when its lease expires.
const bool *judge_losses(const Rows &rows, Snapshot before, DutyOutcome *outcome) {
    const int count = static_cast<int>(rows.size());
    if (count == 0) return nullptr;
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *lost = static_cast<bool *>(palloc(sizeof(bool) * count));
    for (int i = 0; i < count; i++) {
        ids[i] = rows[i].get(1);
        lost[i] = !rows[i].bool_at(2);
    }
    const Company company = find_company_of(ids, lost, count, before);
    const int64 done = outcome->done;
    change_jobs(
        company.count, [&](int first, int n) { mark_company(company.ids + first, company.leases + first, n); },
        [&](int i) { return DatumGetInt64(company.ids[i]); }, outcome);
    outcome->done = done;
    return company.lost_together;
}

// Adds at most `batch` running jobs to the rescue's index. These jobs are not in the index yet, because they were
// claimed recently (leases/young_leases.h), but must be checked from now on. A job that another transaction has locked
// does not delay the other jobs.
void index_due_leases(TimestampTz now, int batch, DutyOutcome *outcome) {
    // Does nothing under an old snapshot, which would not show the leases that must be checked.
    if (IsolationUsesXactSnapshot()) return;
    const Notes<YoungLease> due = due_leases(now);
    int settled = 0;
    change_jobs(
        due.count, [&](int first, int n) { settled += index_leases(due.items + first, n, batch - settled); },
        [&](int i) { return due.items[i].job; }, outcome);
    outcome->more = settled == batch;
    outcome->done = 0;
}

}  // namespace

DutyOutcome rescue_expired(TimestampTz now, TimestampTz requested_before, TimestampTz grace_start, int batch) {
    DutyOutcome outcome = {};
    const UnindexedSearch search = find_unindexed_jobs();
    if (search.left_out != 0) leave_out(&outcome, search.left_out, search.failure);
    index_due_leases(now, batch, &outcome);
    // If some due leases have not been indexed yet, the rescue must wait, because only the jobs in the rescue's index
    // show which jobs were lost together.
    if (outcome.more) return outcome;
    const Horizon known = horizon();
    const bool looks = search.looked || known.deadline <= now || known.cancel_asked < requested_before;
    if (!looks) {
        end_orphans(now, nullptr, batch, &outcome);
        return outcome;
    }
    if (jobs_were_locked()) {
        lock_jobs_table();
        note_jobs_free();
    }
    grace_start = lease_grace(grace_start);
    // Begins the scan before the ids are read. If another session publishes an earlier deadline after this call, the
    // horizon that the scan finds is not published. So a published horizon also takes into account the running jobs
    // that are not in `ids`.
    const uint64 version = begin_horizon_scan();
    const RunningIds ids = running_ids();
    end_orphans(now, &ids, batch, &outcome);
    Snapshot before = RegisterSnapshot(GetLatestSnapshot());
    const Rows rows = run(lock_expired, Params()
                                            .add(TimestampTzGetDatum(now))
                                            .add(TimestampTzGetDatum(grace_start))
                                            .add(Int64GetDatum(batch))
                                            .add(ids.first)
                                            .add(ids.last));
    const bool *lost_together = judge_losses(rows, before, &outcome);
    UnregisterSnapshot(before);
    auto *ended = allocate_array<RescuedAttempt>(rows.size());
    for (uint64 i = 0; i < rows.size(); i++)
        ended[i] = {rows[i].int64_at(1), rows[i].bool_at(2) ? core::RescueEnd::Overran
                                         : lost_together[i] ? core::RescueEnd::LostInCompany
                                                            : core::RescueEnd::Lost};
    end_all(ended, static_cast<int>(rows.size()), now, &outcome);
    if (rows.size() < static_cast<uint64>(batch) && version != 0) {
        const Horizon found = find_horizon(grace_start, ids);
        log_horizon(version, {Min(found.deadline, GetCurrentTimestamp() + kLongestHorizon), found.cancel_asked});
    }
    if (rows.size() == static_cast<uint64>(batch) && outcome.done > 0) outcome.more = true;
    return outcome;
}

DutyOutcome cancel_overdue(TimestampTz now, TimestampTz requested_before, int batch) {
    const Horizon known = horizon();
    if (known.deadline != DT_NOBEGIN && known.cancel_asked >= requested_before) return {};
    const RunningIds ids = running_ids();
    const Rows rows =
        run(lock_overdue,
            Params().add(TimestampTzGetDatum(requested_before)).add(Int64GetDatum(batch)).add(ids.first).add(ids.last));
    auto *ended = allocate_array<RescuedAttempt>(rows.size());
    for (uint64 i = 0; i < rows.size(); i++) ended[i] = {rows[i].int64_at(1), core::RescueEnd::CancelForced};
    DutyOutcome outcome = {};
    end_all(ended, static_cast<int>(rows.size()), now, &outcome);
    outcome.more = rows.size() == static_cast<uint64>(batch) && outcome.done > 0;
    return outcome;
}

TimestampTz earliest_deadline(TimestampTz grace_start, core::Micros cancel_grace) {
    Horizon known = horizon();
    if (known.deadline == DT_NOBEGIN) known = find_horizon(lease_grace(grace_start), running_ids());
    TimestampTz earliest = Min(known.deadline, core::saturating_add(known.cancel_asked, cancel_grace));
    return Min(Min(Min(earliest, next_due_job()), next_young_due()), next_search_for_unindexed());
}

}  // namespace jobq
