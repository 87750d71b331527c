// See dependents.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "edges/awaited_jobs.h"
#include "edges/dependency_policy.h"
#include "finish/ending.h"
#include "groups/dependents.h"
#include "job/change_job.h"
#include "log/rows.h"

#include <algorithm>

namespace jobq {

namespace {

// Maximum number of edges that one transaction handles. The limit lets the unblocked jobs become visible soon.
constexpr int kBatch = 1000;

// Selects the state of the job `id` as one row (status, error). Selects no row if the job was deleted before it
// completed.
#define STATE_OF(id)                                                                                      \
    "(SELECT s.status, left(s.error, 1000) AS error FROM jobq.jobs s WHERE s.id = ANY (ARRAY[" id         \
    "]) "                                                                                                 \
    "UNION ALL SELECT 'completed', NULL FROM jobq.deleted_dependencies r WHERE r.job_id = ANY (ARRAY[" id \
    "]) "                                                                                                 \
    "LIMIT 1)"
// SQL condition: the job j is blocked because of its dependencies. The condition excludes jobs in the line of their
// group (groups/groups.h), because the dependencies of these jobs have ended. It also excludes jobs that await
// something (groups/awaiters.h); these jobs have a time in _must_end_at.
#define WAITS_HERE "j.status = 'blocked' AND j._group_waiting IS NULL AND j._must_end_at IS NULL"
// SQL condition on the row that STATE_OF selects: the job can still complete.
#define UNFINISHED "s.status <= 'processing'"

Statement get_states = {
    "SELECT u.id, s.status::text FROM unnest($1) AS u(id) LEFT JOIN LATERAL " STATE_OF("u.id") " s ON true",
    {INT8ARRAYOID}};

// Selects the dependents of these finished jobs: blocked jobs whose active dependency is one of the finished jobs, and
// blocked jobs that must be canceled because one of the finished jobs has failed.
Statement find_dependents = {
    R"(SELECT d.job_id, d.target, u.failed AND d.on_failure = 'cancel',
              (SELECT max(w.target) FROM jobq.edges w WHERE w.kind = 'depends' AND w.job_id = d.job_id AND w.active)
       FROM unnest($1, $2) AS u(id, failed),
            LATERAL (SELECT * FROM jobq.edges e
                     WHERE e.target = u.id AND e.kind = 'depends' AND (e.active OR u.failed AND e.on_failure = 'cancel')
                     ORDER BY e.job_id) d,
            LATERAL (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[d.job_id]) AND )" WAITS_HERE R"() x
       LIMIT $3)",
    {INT8ARRAYOID, BOOLARRAYOID, INT8OID}};

// For each of the given jobs that is blocked and has dependencies, selects the first failed dependency because of which
// the job must be canceled. Also selects the active dependency, but only if the active dependency has not finished.
// Omits jobs without dependencies: they wait for something else, or they are being restored from a dump and get their
// edges later.
Statement find_failed = {
    R"(SELECT u.id, f.target,
              (SELECT max(d.target)
               FROM jobq.edges d, LATERAL )" STATE_OF("d.target") R"( s
               WHERE d.job_id = u.id AND d.kind = 'depends' AND d.active AND )" UNFINISHED R"()
       FROM unnest($1) AS u(id),
            LATERAL (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" WAITS_HERE R"(
                     AND EXISTS (SELECT FROM jobq.edges d WHERE d.kind = 'depends' AND d.job_id = u.id)) x
            LEFT JOIN LATERAL (SELECT d.target
                               FROM jobq.edges d LEFT JOIN LATERAL )" STATE_OF("d.target") R"( s ON true
                               WHERE d.job_id = u.id AND d.kind = 'depends' AND d.on_failure = 'cancel'
                                 AND (s.status IS NULL OR s.status > 'processing' AND s.status <> 'completed')
                               ORDER BY d.target LIMIT 1) f ON true)",
    {INT8ARRAYOID}};

// Locks the given jobs that are blocked and that no other session has locked.
Statement lock_blocked = {
    R"(SELECT x.id FROM unnest($1) AS u(id),
            LATERAL (SELECT j.id FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" WAITS_HERE R"(
                     FOR NO KEY UPDATE SKIP LOCKED) x)",
    {INT8ARRAYOID}};

// For each of the given jobs, looks at the dependencies whose ids are below the given id, and selects a dependency that
// has not finished or because of which the job must be canceled. If there are several such dependencies, selects the
// one with the highest id; if there is none, selects NULL. The last column is the currently active dependency. A
// separate statement locks the jobs, because the snapshot of a locking statement is older than the locks that the
// statement takes. Such a snapshot might not show an edge that another session added with plain SQL while that session
// held the lock.
Statement look = {
    R"(SELECT u.id, f.target, f.status::text, f.error, w.target
       FROM unnest($1, $2) AS u(id, below)
            LEFT JOIN LATERAL (SELECT d.target, s.status, s.error
                               FROM jobq.edges d LEFT JOIN LATERAL )" STATE_OF("d.target") R"( s ON true
                               WHERE d.job_id = u.id AND d.kind = 'depends' AND d.target < u.below
                                 AND ()" UNFINISHED R"(
                                      OR d.on_failure = 'cancel' AND s.status IS DISTINCT FROM 'completed')
                               ORDER BY d.target DESC LIMIT 1) f ON true
            LEFT JOIN LATERAL (SELECT d.target FROM jobq.edges d
                               WHERE d.job_id = u.id AND d.kind = 'depends' AND d.active LIMIT 1) w ON true)",
    {INT8ARRAYOID, INT8ARRAYOID}};

// SQL condition: the edge d leads from one of the given jobs to a dependency, satisfies `condition`, and is not locked
// by another session.
#define EDGES_BY_PLACE(condition)                                                                          \
    "d.ctid = ANY (ARRAY (SELECT e.ctid FROM unnest($1, $2) AS u(id, target), "                            \
    "LATERAL (SELECT l.ctid FROM jobq.edges l WHERE l.kind = 'depends' AND l.job_id = u.id AND " condition \
    " FOR UPDATE SKIP LOCKED) e))"
Statement activate = {
    "UPDATE jobq.edges d SET active = true "
    "WHERE " EDGES_BY_PLACE("l.target = u.target") " RETURNING d.job_id",
    {INT8ARRAYOID, INT8ARRAYOID}};
// Deactivates all dependencies of each job except the given target. If the target is 0, deactivates all dependencies of
// the job.
Statement deactivate = {
    "UPDATE jobq.edges d SET active = NULL "
    "WHERE " EDGES_BY_PLACE("l.active AND l.target <> u.target"),
    {INT8ARRAYOID, INT8ARRAYOID}};

// Locks the given jobs that are waiting or have never started. Finished jobs that have never started are included,
// because they wait for their dependencies again if they are retried.
Statement lock_dependents_by_id = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.id = ANY ($1) AND (j.status < 'processing' OR j.started_at IS NULL) ORDER BY j.id FOR NO KEY UPDATE)",
    {INT8ARRAYOID}};

Statement find_dependent_ones = {
    R"(SELECT u.id FROM unnest($1) AS u(id)
       WHERE EXISTS (SELECT FROM jobq.edges d WHERE d.kind = 'depends' AND d.job_id = u.id))",
    {INT8ARRAYOID}};

// Selects the given locked jobs that are pending or scheduled and so do not wait for a dependency yet.
Statement find_not_blocked = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.id = ANY ($1) AND j.status < 'processing' AND j.status <> 'blocked' ORDER BY j.id)",
    {INT8ARRAYOID}};

// SQL condition: the job `id` has a dependency that has not finished, or a failed dependency because of which the job
// must be canceled.
#define REASON_TO_WAIT(id)                                                   \
    "EXISTS (SELECT FROM jobq.edges d LEFT JOIN LATERAL " STATE_OF(          \
        "d.target") " s ON true WHERE d.kind = 'depends' AND d.job_id = " id \
                    " AND s.status IS DISTINCT FROM 'completed' AND (d.on_failure = 'cancel' OR " UNFINISHED "))"
Statement find_reason_to_wait = {"SELECT " REASON_TO_WAIT("$1"), {INT8OID}};

// Selects the given jobs that are blocked, each with the highest id of its dependencies and the id of its active
// dependency. Omits a job in the line of its group if the dependencies of the job have ended, because such a job stays
// in line.
Statement find_blocked = {
    R"(SELECT u.id, (SELECT max(d.target) FROM jobq.edges d WHERE d.kind = 'depends' AND d.job_id = u.id),
              (SELECT max(d.target) FROM jobq.edges d WHERE d.kind = 'depends' AND d.job_id = u.id AND d.active)
       FROM unnest($1) AS u(id),
            LATERAL (SELECT FROM jobq.jobs j
                     WHERE j.id = ANY (ARRAY[u.id]) AND j.status = 'blocked' AND j._must_end_at IS NULL
                       AND (j._group_waiting IS NULL OR )" REASON_TO_WAIT("u.id") R"()) x)",
    {INT8ARRAYOID}};

Statement lock_in_line = {
    R"(SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) AND j._group_waiting IS NOT NULL ORDER BY j.id
       FOR NO KEY UPDATE)",
    {INT8ARRAYOID}};

// Locks the given jobs that no longer wait for any dependency. Waits for sessions that are changing these jobs.
Statement lock_free = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.id = ANY ($1) AND )" WAITS_HERE R"(
         AND NOT EXISTS (SELECT FROM jobq.edges d WHERE d.kind = 'depends' AND d.job_id = j.id)
       ORDER BY j.id FOR NO KEY UPDATE)",
    {INT8ARRAYOID},
    Planning::Free};

Statement find_all_blocked = {"SELECT j.id FROM jobq.jobs j WHERE j.status = 'blocked'", {}, Planning::Free};

// A job whose dependencies with ids below `below` must be checked.
struct Candidate {
    int64 job;
    int64 below;
    bool fails;       // the dependency with the id `below` - 1 has failed, so the job must be canceled
    int64 published;  // the published key that led to the job
};

// The jobs to promote; the jobs to cancel, with the reasons; and the jobs whose active dependency must change, with the
// new active dependencies (moved_to).
struct Results {
    Notes<Datum> promoted;
    Notes<Datum> cancelled, reasons;
    Notes<Datum> moved, moved_to;
    Datum *settled;  // the promoted and the canceled jobs
    int settled_count;
};

core::DependencyState state_at(const Row &row, int column) {
    return row.is_null(column) ? core::DependencyState::Deleted : core::dependency_state(status_at(row, column));
}

text *reason_of(const Row &row) {
    const core::DependencyState state = state_at(row, 3);
    const std::string_view error =
        row.is_null(4) ? std::string_view() : core::first_cause(view(DatumGetTextPP(row.get(4))));
    return cstring_to_text(psprintf("dependency %lld %s%s%.*s", static_cast<long long>(row.int64_at(2)),
                                    core::ended_how(state), error.empty() ? "" : ": ", static_cast<int>(error.size()),
                                    error.data()));
}

void promote_jobs(const Datum *ids, int count, TimestampTz now) {
    // Jobs might have been enqueued after `now`, which is the time at which the duty began. So the event gets the
    // current time if the current time is later than `now`.
    apply_event(ids, count, {core::EventKind::DependenciesDone, Max(now, GetCurrentTimestamp())});
}

// Removes jobs that have new dependencies from the line of their group, because a job in line must not wait for
// dependencies.
void leave_lines(Datum *ids, int count) {
    if (count == 0) return;
    const Rows in_line = run(lock_in_line, Params().add(array_of(ids, count, INT8OID)));
    for (uint64 i = 0; i < in_line.size(); i++) ids[i] = in_line[i].get(1);
    apply_event(ids, static_cast<int>(in_line.size()), {core::EventKind::LeftLine, GetCurrentTimestamp()});
}

// Raises 40001 if, for any of these jobs, the transaction's snapshot and the latest snapshot disagree about whether the
// job has dependencies. The statement that locks the rows of the jobs does not always raise this error, because a
// session that adds an edge locks the job but need not change its row.
void require_known_dependents(const Rows &locked) {
    const Params params = Params().add(array_of(first_column(locked), static_cast<int>(locked.size()), INT8OID));
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    const Rows now = read(find_dependent_ones, params, latest);
    UnregisterSnapshot(latest);
    const Rows seen = run(find_dependent_ones, params);
    bool known = now.size() == seen.size();
    for (uint64 i = 0; known && i < now.size(); i++) known = now[i].int64_at(1) == seen[i].int64_at(1);
    if (known) return;
    ereport(ERROR,
            (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("could not serialize access due to concurrent update"),
             errdetail("The dependencies of a job have changed since the transaction's snapshot was taken."),
             errhint("Retry the transaction.")));
}

// Calls change() for the given jobs, and adds the jobs for which change() succeeds to results->settled.
template <typename Change>
void change_each(const Notes<Datum> &jobs, Change change, Results *results, DutyOutcome *outcome) {
    change_all_or_each(
        jobs.count, change,
        [&](int i) {
            outcome->done++;
            results->settled[results->settled_count++] = jobs.items[i];
        },
        [&](int i, const FailureText &failure) { leave_out(outcome, DatumGetInt64(jobs.items[i]), failure); });
}

// Makes commits publish the end of this dependency. If they did not do this before the call, the dependency might have
// ended unnoticed since it was checked, so the function schedules another check of it.
void look_later(int64 job) {
    if (await_job(job)) log_unblocked(Blocker::Edge, job);
}

void activate_next(const Results &results, Unblocking *done) {
    const Notes<Datum> &moved = results.moved, &moved_to = results.moved_to;
    if (moved.count == 0) return;
    const Datum jobs = array_of(moved.items, moved.count, INT8OID);
    const Datum to = array_of(moved_to.items, moved_to.count, INT8OID);
    run(activate, Params().add(jobs).add(to));
    if (affected() != moved.count)
        // Another session has locked an edge, so this branch schedules another check and deactivates no edge. A job
        // with two active edges is only checked more often than necessary, but a job without an active edge would be
        // checked too late.
        for (int i = 0; i < moved.count; i++) look_again({-DatumGetInt64(moved.items[i]), kNoJob, Blocker::Edge});
    else {
        run(deactivate, Params().add(jobs).add(to));
        done->moved += affected();
    }
    for (int i = 0; i < moved_to.count; i++) look_later(DatumGetInt64(moved_to.items[i]));
}

void sort_result(const Row &row, Results *results) {
    if (row.is_null(2)) {
        results->promoted.add(row.get(1));
    } else if (state_at(row, 3) != core::DependencyState::Unfinished) {
        results->cancelled.add(row.get(1));
        results->reasons.add(PointerGetDatum(reason_of(row)));
    } else if (row.is_null(5) || row.int64_at(5) != row.int64_at(2)) {
        results->moved.add(row.get(1));
        results->moved_to.add(row.get(2));
    } else {
        look_later(row.int64_at(2));
    }
}

// Returns how many of these jobs have finished or no longer exist.
int64 count_finished(const Notes<Datum> &jobs) {
    const Rows states = run(get_states, Params().add(array_of(jobs.items, jobs.count, INT8OID)));
    int64 finished = 0;
    for (uint64 i = 0; i < states.size(); i++)
        if (state_at(states[i], 2) != core::DependencyState::Unfinished) finished++;
    return finished;
}

// Keeps one candidate per job, preferably one whose dependency has failed. Returns the number of candidates.
int distinct(Candidate *candidates, int count) {
    std::sort(candidates, candidates + count, [](const Candidate &a, const Candidate &b) {
        if (a.job != b.job) return a.job < b.job;
        return a.fails != b.fails ? a.fails : a.below > b.below;
    });
    return static_cast<int>(std::unique(candidates, candidates + count,
                                        [](const Candidate &a, const Candidate &b) { return a.job == b.job; }) -
                            candidates);
}

// Locks the candidates that are blocked, moves them to the front of the array without changing their order, and returns
// their number. Each job must occur only once. Schedules another check of the candidates that it did not lock, because
// other sessions might have locked them.
int lock_candidates(Candidate *candidates, int count) {
    Datum *jobs = allocate_array<Datum>(count);
    for (int i = 0; i < count; i++) jobs[i] = Int64GetDatum(candidates[i].job);
    const Rows locked = run(lock_blocked, Params().add(array_of(jobs, count, INT8OID)));
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (static_cast<uint64>(left) < locked.size() && locked[left].int64_at(1) == candidates[i].job)
            candidates[left++] = candidates[i];
        else
            look_again({candidates[i].published, kNoJob, Blocker::Edge});
    }
    return left;
}

// Decides which of these locked jobs must be promoted, which must be canceled, and which need a different active
// dependency.
Results look_at(const Candidate *candidates, int count) {
    Datum *jobs = allocate_array<Datum>(count), *below = allocate_array<Datum>(count);
    for (int i = 0; i < count; i++) {
        jobs[i] = Int64GetDatum(candidates[i].job);
        below[i] = Int64GetDatum(candidates[i].below);
    }
    const Rows rows = run(look, Params().add(array_of(jobs, count, INT8OID)).add(array_of(below, count, INT8OID)));
    Results results = {};
    results.settled = allocate_array<Datum>(count);
    for (int i = 0; i < count; i++) {
        const Row row = rows[i];
        // If the failed dependency has been retried in the meantime, schedules another check of the job, because its
        // dependencies with higher ids have not been checked.
        if (candidates[i].fails && (row.is_null(2) || state_at(row, 3) == core::DependencyState::Unfinished))
            log_unblocked(Blocker::Edge, -candidates[i].job);
        else
            sort_result(row, &results);
    }
    return results;
}

// Cancels the jobs that must be canceled. Returns the number of canceled jobs.
int64 cancel_found(Results *results, Unblocking *done) {
    const int64 done_before = done->outcome.done;
    change_each(
        results->cancelled,
        [&](int first, int n) {
            apply_and_end(results->cancelled.items + first, n, {core::EventKind::Dropped, done->now},
                          results->reasons.items + first);
        },
        results, &done->outcome);
    if (done->outcome.done == done_before) return 0;
    // A job that a user-defined trigger keeps unchanged does not count as canceled. Otherwise, the caller's loop would
    // never end.
    const int64 cancelled = count_finished(results->cancelled);
    done->outcome.done = done_before + cancelled;
    return cancelled;
}

// Unblocks each candidate, cancels it, or activates its edge to the next dependency. The candidates were blocked when
// they were found, but might have changed since then. Returns the number of canceled jobs.
int64 settle(Candidate *candidates, int count, Unblocking *done) {
    if (count == 0) return 0;
    count = lock_candidates(candidates, distinct(candidates, count));
    Results results = look_at(candidates, count);
    change_each(
        results.promoted, [&](int first, int n) { promote_jobs(results.promoted.items + first, n, done->now); },
        &results, &done->outcome);
    const int64 cancelled = cancel_found(&results, done);
    activate_next(results, done);
    deactivate_dependencies(results.settled, results.settled_count);
    return cancelled;
}

}  // namespace

void keep_ended(Ended *ended) {
    if (ended->count == 0) return;
    const Rows states = run(get_states, Params().add(array_of(ended->jobs, ended->count, INT8OID)));
    ended->count = 0;
    for (uint64 i = 0; i < states.size(); i++) {
        const core::DependencyState state = state_at(states[i], 2);
        if (state == core::DependencyState::Unfinished) continue;
        ended->jobs[ended->count] = states[i].get(1);
        ended->first[ended->count] = ended->first[i];
        ended->failed[ended->count++] = BoolGetDatum(state != core::DependencyState::Completed);
    }
}

void look_at_dependents_of(const Ended &ended, Unblocking *done) {
    if (ended.count == 0) return;
    const Rows rows = run(find_dependents, Params()
                                               .add(array_of(ended.jobs, ended.count, INT8OID))
                                               .add(array_of(ended.failed, ended.count, BOOLOID))
                                               .add(Int64GetDatum(kBatch)));
    auto *candidates = static_cast<Candidate *>(palloc(sizeof(Candidate) * Max(rows.size(), 1)));
    for (uint64 i = 0; i < rows.size(); i++) {
        const int64 dependency = rows[i].int64_at(2);
        const bool fails = rows[i].bool_at(3);
        // If edges were changed with plain SQL, the job might have another active dependency, with a higher id.
        const int64 highest = fails || rows[i].is_null(4) ? dependency : Max(dependency, rows[i].int64_at(4));
        candidates[i] = {rows[i].int64_at(1), highest + 1, fails, dependency};
    }
    const int64 before = done->outcome.done + done->moved, failed_before = done->outcome.failed;
    settle(candidates, static_cast<int>(rows.size()), done);
    // If no job was changed, all jobs are locked by other sessions or cannot be changed, and another check is already
    // scheduled.
    const bool full = rows.size() == static_cast<uint64>(kBatch);
    const bool more = full && done->outcome.done + done->moved > before;
    for (int i = 0; i < ended.count; i++) {
        const int64 job = DatumGetInt64(ended.jobs[i]);
        if (more)
            log_unblocked(Blocker::Edge, job);
        else if (full && done->outcome.failed == failed_before)
            look_again({job, kNoJob, Blocker::Edge});
    }
}

int64 look_at_dependents(Datum *jobs, int count, Unblocking *done) {
    if (count == 0) return 0;
    const Rows rows = run(find_failed, Params().add(array_of(jobs, count, INT8OID)));
    auto *candidates = static_cast<Candidate *>(palloc(sizeof(Candidate) * Max(rows.size(), 1)));
    int candidate_count = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const bool fails = !rows[i].is_null(2);
        const int64 job = rows[i].int64_at(1);
        // Most jobs that a search finds already have the correct active edge, so their rows are not locked.
        if (fails || rows[i].is_null(3))
            candidates[candidate_count++] = {job, fails ? rows[i].int64_at(2) + 1 : PG_INT64_MAX, fails, -job};
    }
    return settle(candidates, candidate_count, done);
}

void deactivate_dependencies(Datum *jobs, int count) {
    if (count == 0) return;
    Datum *nothing = allocate_array<Datum>(count);
    std::fill(nothing, nothing + count, Int64GetDatum(0));
    run(deactivate, Params().add(array_of(jobs, count, INT8OID)).add(array_of(nothing, count, INT8OID)));
}

void lock_dependents(Datum jobs) {
    const Rows locked = run(lock_dependents_by_id, Params().add(jobs));
    if (IsolationUsesXactSnapshot()) require_known_dependents(locked);
}

void block_dependents(Datum jobs) {
    const Rows waiting = run(find_not_blocked, Params().add(jobs));
    auto *blocked = allocate_array<Datum>(waiting.size());
    int count = 0;
    for (uint64 i = 0; i < waiting.size(); i++)
        if (has_reason_to_wait(waiting[i].int64_at(1))) blocked[count++] = waiting[i].get(1);
    apply_event(blocked, count, {core::EventKind::Blocked, GetCurrentTimestamp()});
}

bool has_reason_to_wait(int64 job) { return run(find_reason_to_wait, Params().add(Int64GetDatum(job)))[0].bool_at(1); }

void settle_dependents(Datum jobs) {
    const Rows blocked = run(find_blocked, Params().add(jobs));
    const auto count = static_cast<int64>(blocked.size());
    Datum *dependents = allocate_array<Datum>(count), *inactive = allocate_array<Datum>(count),
          *active = allocate_array<Datum>(count);
    int dependent_count = 0, inactive_count = 0;
    for (uint64 i = 0; i < blocked.size(); i++) {
        const Row row = blocked[i];
        if (row.is_null(2)) continue;
        dependents[dependent_count++] = row.get(1);
        if (row.is_null(3) || row.int64_at(3) < row.int64_at(2)) {
            inactive[inactive_count] = row.get(1);
            active[inactive_count++] = row.get(2);
        }
        log_unblocked(Blocker::Edge, -row.int64_at(1));
    }
    leave_lines(dependents, dependent_count);
    if (inactive_count == 0) return;
    run(activate,
        Params().add(array_of(inactive, inactive_count, INT8OID)).add(array_of(active, inactive_count, INT8OID)));
}

void free_dependents(Datum jobs, TimestampTz now) {
    const Rows blocked = run(lock_free, Params().add(jobs));
    const int count = static_cast<int>(blocked.size());
    if (count > 0) promote_jobs(first_column(blocked), count, now);
}

void settle_all_dependents(TimestampTz now) {
    const Rows blocked = run(find_all_blocked, Params());
    const Datum all = array_of(first_column(blocked), static_cast<int>(blocked.size()), INT8OID);
    settle_dependents(all);
    free_dependents(all, now);
}

}  // namespace jobq
