// See job_ends.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "edges/awaited_jobs.h"
#include "groups/awaiting.h"
#include "groups/job_ends.h"
#include "steps/step_policy.h"

namespace jobq {

namespace {

// Of those that commits tell of: others are jobs that wait.
Statement find_ended = {
    R"(SELECT u.id FROM unnest($1) AS u(id)
       WHERE NOT EXISTS (SELECT FROM jobq.jobs o WHERE o.id = ANY (ARRAY[u.id]) AND o.status <= 'processing' OFFSET 0))",
    {INT8ARRAYOID}};

// From a job on each, so that those who have been set free and have not looked yet are passed once.
Statement find_waiting = {
    R"(SELECT u.id, w.job_id
       FROM unnest($1, $2) AS u(id, first),
            LATERAL (SELECT w.job_id FROM jobq.edges w
                     WHERE w.target = u.id AND w.kind = 'awaits' AND w.active AND w.job_id >= u.first
                     ORDER BY w.job_id LIMIT $3) w)",
    {INT8ARRAYOID, INT8ARRAYOID, INT8OID}};

Statement find_watched = {
    R"(SELECT w.target FROM unnest($1) AS u(id),
            LATERAL (SELECT w.target FROM jobq.edges w WHERE w.job_id = u.id AND w.kind = 'awaits' AND w.active) w)",
    {INT8ARRAYOID}};

// Of each of these jobs that awaits others: whether it need not wait any more, else the job to watch from now on; NULL:
// the one that is watched has not ended. One that is gone has ended.
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
                  LATERAL (SELECT s.kind FROM jobq.steps s WHERE s.job_id = u.id AND s._awaited = $2 LIMIT 1) s,
                  LATERAL (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITS_SOMETHING R"() j,
                  LATERAL (SELECT max(w.target) AS watched FROM jobq.edges w
                           WHERE w.job_id = u.id AND w.kind = 'awaits' AND w.active AND s.kind = 'all') a) x
       ORDER BY x.id)",
    {INT8ARRAYOID, INT8OID}};

Statement unwatch = {
    "UPDATE jobq.edges w SET active = NULL FROM unnest($1) AS u(id) "
    "WHERE w.job_id = u.id AND w.kind = 'awaits' AND w.active",
    {INT8ARRAYOID}};
Statement watch = {
    "UPDATE jobq.edges w SET active = true FROM unnest($1, $2) AS u(id, next) "
    "WHERE w.job_id = u.id AND w.kind = 'awaits' AND w.target = u.next",
    {INT8ARRAYOID, INT8ARRAYOID}};

// Commits tell of their ends from now on, before anybody looks.
void await_watched(Datum jobs) {
    note_awaiting(Audience::Waiters);
    const Rows watched = run(find_watched, Params().add(jobs));
    for (uint64 i = 0; i < watched.size(); i++) await_job(Audience::Waiters, watched[i].int64_at(1));
}

// Those that nobody holds watch the next job each. They are left in front; returns how many.
int watch_next(Datum *jobs, Datum *next, int count) {
    count = lock_awaiting(jobs, next, count);
    if (count == 0) return 0;
    const Datum ids = array_of(jobs, count, INT8OID);
    run(unwatch, Params().add(ids));
    run(watch, Params().add(ids).add(array_of(next, count, INT8OID)));
    return count;
}

}  // namespace

void find_waiters(const Unblocked *told, int count, Notes<Datum> *jobs) {
    ArrayColumn keys(count);
    for (int i = 0; i < count; i++)
        if (told[i].key >= 0) keys.add(Int64GetDatum(told[i].key));
    if (keys.count == 0) return;
    const Rows gone = run(find_ended, Params().add(keys.array(INT8OID)));
    ArrayColumn ended(count), first(count);
    for (int i = 0; i < count && static_cast<uint64>(ended.count) < gone.size(); i++) {
        if (told[i].key < 0 || told[i].key != gone[ended.count].int64_at(1)) continue;
        // Before the next look: whoever awaits it later, since it was retried, enters it anew.
        stop_awaiting_job(Audience::Waiters, told[i].key);
        ended.add(Int64GetDatum(told[i].key));
        first.add(Int64GetDatum(told[i].job));
    }
    if (ended.count == 0) return;
    const Rows rows = run(
        find_waiting, Params().add(ended.array(INT8OID)).add(first.array(INT8OID)).add(Int64GetDatum(kWaitsAtOnce)));
    int of_same = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const int64 awaited = rows[i].int64_at(1);
        of_same = i > 0 && rows[i - 1].int64_at(1) == awaited ? of_same + 1 : 1;
        jobs->add(rows[i].get(2));
        if (of_same == kWaitsAtOnce) log_unblocked(Blocker::Wait, awaited, rows[i].int64_at(2) + 1);
    }
}

void find_ended_waits(Datum *jobs, int count, Notes<Datum> *over) {
    while (count > 0) {
        CHECK_FOR_INTERRUPTS();
        const Datum ids = array_of(jobs, count, INT8OID);
        await_watched(ids);
        const Rows rows = run(look, Params().add(ids).add(Int64GetDatum(core::kAwaitsJobs)));
        auto *moved = room_for<Datum>(rows.size()), *next = room_for<Datum>(rows.size());
        count = 0;
        for (uint64 i = 0; i < rows.size(); i++) {
            const Row row = rows[i];
            if (row.bool_at(2)) over->add(row.get(1));
            if (row.bool_at(2) || row.is_null(3)) continue;
            moved[count] = row.get(1);
            next[count++] = row.get(3);
        }
        // Those may have ended by now, unnoticed.
        count = watch_next(moved, next, count);
        jobs = moved;
    }
}

}  // namespace jobq
