// See awaiters.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "edges/edges.h"
#include "groups/awaiters.h"
#include "groups/deadlock.h"
#include "job/change_job.h"
#include "steps/step_policy.h"
#include "steps/steps.h"

#include <algorithm>

namespace jobq {

namespace {

// Maximum number of jobs that one transaction unblocks because one awaited job has ended or one signal has arrived. The
// number is limited because the unblocked jobs become visible only when the transaction commits.
constexpr int kAwaitersAtOnce = 1000;

Statement find_signalled = {
    R"(SELECT DISTINCT u.id
       FROM unnest($1) AS u(id),
            LATERAL (SELECT s.job_id, s.event FROM jobq.steps s WHERE s.job_id = u.id AND s._awaited IS NOT NULL) s,
            LATERAL (SELECT j.queue FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITS_SOMETHING R"() j
       WHERE EXISTS (SELECT FROM jobq.job_signals g WHERE g.job_id = s.job_id AND g.event = s.event)
          OR EXISTS (SELECT FROM jobq.signals g WHERE g.queue = j.queue COLLATE "C" AND g.event = s.event))",
    {INT8ARRAYOID}};

// Selects the jobs that await the given signals. For each signal, starts at a given job id; otherwise, the statement
// would reread jobs that have been unblocked but whose workers have not yet checked whether the wait is over. In the
// same way, find_by_target starts at a given job id for each target.
Statement find_by_signal = {
    R"(SELECT u.id, s.job_id
       FROM unnest($1, $2) AS u(id, first),
            LATERAL (SELECT g.queue, g.event FROM jobq.signals g WHERE g.id = ANY (ARRAY[u.id]) OFFSET 0) g,
            LATERAL (SELECT s.job_id FROM jobq.steps s
                     WHERE s.event = g.event AND s._awaited = g.queue AND s.job_id >= u.first
                     ORDER BY s.job_id LIMIT $3) s)",
    {INT8ARRAYOID, INT8ARRAYOID, INT8OID}};
Statement find_by_target = {
    R"(SELECT u.id, e.job_id
       FROM unnest($1, $2) AS u(id, first),
            LATERAL (SELECT e.job_id FROM jobq.edges e
                     WHERE e.target = u.id AND e.kind = 'awaits' AND e.active AND e.job_id >= u.first
                     ORDER BY e.job_id LIMIT $3) e)",
    {INT8ARRAYOID, INT8ARRAYOID, INT8OID}};

Statement lock_awaiting = {
    R"(SELECT j.id FROM unnest($1) AS u(id),
            LATERAL (SELECT j.id FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITS_SOMETHING R"(
                     FOR NO KEY UPDATE SKIP LOCKED) j)",
    {INT8ARRAYOID}};

// For each of the given jobs that awaits other jobs, selects whether its wait is over, and the target to which its
// active edge must lead from now on. The target is NULL if the active edge need not change, for example because the
// current target has not ended. A deleted job counts as ended.
#define UNFINISHED_AWAITED \
    "LATERAL (SELECT FROM jobq.jobs o WHERE o.id = ANY (ARRAY[w.target]) AND o.status <= 'processing') o"
Statement look = {
    R"(SELECT x.id,
              CASE x.kind WHEN 'any' THEN NOT EXISTS (SELECT FROM jobq.edges w WHERE w.job_id = x.id AND w.kind = 'awaits')
                                          OR EXISTS (SELECT FROM jobq.edges w
                                                     WHERE w.job_id = x.id AND w.kind = 'awaits'
                                                       AND NOT EXISTS (SELECT FROM jobq.jobs o
                                                                       WHERE o.id = ANY (ARRAY[w.target])
                                                                         AND o.status <= 'processing' OFFSET 0) OFFSET 0)
                          ELSE x.next IS NULL END,
              CASE WHEN x.next IS DISTINCT FROM x.watched THEN x.next END
       FROM (SELECT u.id, s.kind, a.watched,
                    CASE s.kind WHEN 'all' THEN
                        (SELECT w.target FROM jobq.edges w, )" UNFINISHED_AWAITED R"(
                         WHERE w.job_id = u.id AND w.kind = 'awaits'
                           AND w.target <= coalesce(a.watched, 9223372036854775807)
                         ORDER BY w.target DESC LIMIT 1) END AS next
             FROM (SELECT DISTINCT v.id FROM unnest($1) AS v(id)) u,
                  LATERAL (SELECT s.kind FROM jobq.steps s WHERE s.job_id = u.id AND s._awaited = '' LIMIT 1) s,
                  LATERAL (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITS_SOMETHING R"() j,
                  LATERAL (SELECT max(w.target) AS watched FROM jobq.edges w
                           WHERE w.job_id = u.id AND w.kind = 'awaits' AND w.active AND s.kind = 'all') a) x
       ORDER BY x.id)",
    {INT8ARRAYOID}};

Statement unwatch = {
    "UPDATE jobq.edges w SET active = NULL FROM unnest($1) AS u(id) "
    "WHERE w.job_id = u.id AND w.kind = 'awaits' AND w.active",
    {INT8ARRAYOID}};
Statement watch = {
    "UPDATE jobq.edges w SET active = true FROM unnest($1, $2) AS u(id, next) "
    "WHERE w.job_id = u.id AND w.kind = 'awaits' AND w.target = u.next",
    {INT8ARRAYOID, INT8ARRAYOID}};

// Adds to `jobs` the jobs in the second column of these rows. The first column is the signal or target that the job
// awaits. If more jobs await a signal or target than one transaction handles, publishes the signal or target again.
void add_awaiters(const Rows &rows, Blocker blocker, Notes<Datum> *jobs) {
    int of_same = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const int64 key = rows[i].int64_at(1);
        of_same = i > 0 && rows[i - 1].int64_at(1) == key ? of_same + 1 : 1;
        jobs->add(rows[i].get(2));
        if (of_same == kAwaitersAtOnce) log_unblocked(blocker, key, rows[i].int64_at(2) + 1);
    }
}

// Locks the given jobs, except jobs that no longer await anything. Moves the ids of the locked jobs to the front of
// `ids`, and returns their number. `ids` must be sorted. Schedules another check of the jobs that it did not lock,
// because other transactions might have locked them. If `next` is not nullptr, reorders `next` in the same way as
// `ids`.
int lock_those_awaiting(Datum *ids, Datum *next, int count) {
    if (count == 0) return 0;
    const Rows locked = run(lock_awaiting, Params().add(array_of(ids, count, INT8OID)));
    int left = 0;
    for (int i = 0; i < count; i++) {
        const int64 id = DatumGetInt64(ids[i]);
        if (static_cast<uint64>(left) == locked.size() || locked[left].int64_at(1) != id) {
            look_again({-id, kNoJob, Blocker::Edge});
            continue;
        }
        if (next != nullptr) next[left] = next[i];
        ids[left++] = ids[i];
    }
    return left;
}

// Activates the edges from these jobs to their targets in `next`, and deactivates the other edges of these jobs. Skips
// jobs that other transactions have locked. Moves the ids of the changed jobs to the front of `jobs` and returns their
// number.
int watch_next(Datum *jobs, Datum *next, int count) {
    count = lock_those_awaiting(jobs, next, count);
    if (count == 0) return 0;
    const Datum ids = array_of(jobs, count, INT8OID);
    run(unwatch, Params().add(ids));
    run(watch, Params().add(ids).add(array_of(next, count, INT8OID)));
    watch_targets(ids);
    return count;
}

// Adds to `over` each of the given jobs whose wait for other jobs might be over.
void find_ended_waits(Datum *jobs, int count, Notes<Datum> *over) {
    while (count > 0) {
        CHECK_FOR_INTERRUPTS();
        const Rows rows = run(look, Params().add(array_of(jobs, count, INT8OID)));
        auto *moved = allocate_array<Datum>(rows.size()), *next = allocate_array<Datum>(rows.size());
        count = 0;
        for (uint64 i = 0; i < rows.size(); i++) {
            const Row row = rows[i];
            if (row.bool_at(2)) over->add(row.get(1));
            if (row.bool_at(2) || row.is_null(3)) continue;
            moved[count] = row.get(1);
            next[count++] = row.get(3);
        }
        // The loop checks the changed jobs again, because the new target of an edge might have ended before the edge
        // became active. In this case, the commit that ended the target might not have published the end.
        count = watch_next(moved, next, count);
        jobs = moved;
    }
}

// Adds only one job of a deadlock cycle to `over`, and schedules another check of the other jobs in cycles. If all of
// these jobs were unblocked at the same time, all of them could begin to wait again at the same time and close the
// cycle again.
void break_ring(Datum *jobs, int count, Notes<Datum> *over) {
    const Rows rings = find_rings(jobs, count);
    for (uint64 i = 0; i < rings.size(); i++) {
        if (i == 0)
            over->add(rings[i].get(1));
        else
            look_again({-rings[i].int64_at(1), kNoJob, Blocker::Edge});
    }
}

// Unblocks the given jobs that no other session has locked. `ids` may contain duplicates.
void free_jobs(Datum *ids, int count, Unblocking *done) {
    std::sort(ids, ids + count);
    count = static_cast<int>(std::unique(ids, ids + count) - ids);
    count = lock_those_awaiting(ids, nullptr, count);
    const core::Event event = {core::EventKind::WaitOver, Max(done->now, GetCurrentTimestamp())};
    change_all_or_each(
        count, [&](int first, int n) { apply_event(ids + first, n, event); }, [&](int) { done->outcome.done++; },
        [&](int i, const FailureText &failure) { leave_out(&done->outcome, DatumGetInt64(ids[i]), failure); });
}

}  // namespace

void find_awaiters(const Ended &ended, Notes<Datum> *jobs) {
    if (ended.count == 0 || !any_active(EdgeKind::Awaits)) return;
    add_awaiters(run(find_by_target, Params()
                                         .add(array_of(ended.jobs, ended.count, INT8OID))
                                         .add(array_of(ended.first, ended.count, INT8OID))
                                         .add(Int64GetDatum(kAwaitersAtOnce))),
                 Blocker::Edge, jobs);
}

void find_awaiters_of_signals(const Unblocked *published, int count, Notes<Datum> *jobs) {
    ArrayColumn signals(count), first(count);
    for (int i = 0; i < count; i++) {
        signals.add(Int64GetDatum(published[i].key));
        first.add(Int64GetDatum(published[i].job));
    }
    add_awaiters(
        run(find_by_signal,
            Params().add(signals.array(INT8OID)).add(first.array(INT8OID)).add(Int64GetDatum(kAwaitersAtOnce))),
        Blocker::Signal, jobs);
}

void look_at_awaiters(Datum *jobs, int count, Unblocking *done) {
    if (count == 0 || !any_step()) return;
    const Rows signalled = run(find_signalled, Params().add(array_of(jobs, count, INT8OID)));
    Notes<Datum> over = {};
    for (uint64 i = 0; i < signalled.size(); i++) over.add(signalled[i].get(1));
    if (any_active(EdgeKind::Awaits)) {
        find_ended_waits(jobs, count, &over);
        break_ring(jobs, count, &over);
    }
    free_jobs(over.items, over.count, done);
}

}  // namespace jobq
