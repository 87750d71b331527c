// See deadlock.h. The search goes from a job to the jobs for which it waits, then to the jobs for which those jobs
// wait, and so on.
#include "compat/pg.h"

#include "compat/args.h"
#include "groups/awaiters.h"
#include "groups/deadlock.h"
#include "steps/step_policy.h"

namespace jobq {

namespace {

// SQL condition: the job `id` waits, without a timeout, for the end of all jobs in a list. A wait for any one job in a
// list also counts if the list contains only one distinct job.
#define AWAITS_PERMANENTLY(id)                                                            \
    "EXISTS (SELECT FROM jobq.steps s WHERE s.job_id = " id                               \
    " AND s._awaited = '' AND s.until IS NULL "                                           \
    "AND (s.kind = 'all' OR (SELECT min(u) = max(u) FROM pg_catalog.unnest(s.jobs) u))) " \
    "AND EXISTS (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[" id "]) AND " AWAITS_SOMETHING " OFFSET 0)"

#define IS_HELD(id)                                               \
    "EXISTS (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[" id \
    "]) AND j.status = 'blocked' "                                \
    "AND (j._group_waiting IS NOT NULL OR j._must_end_at IS NOT NULL) OFFSET 0)"

// Selects the jobs for which the job `id` waits permanently.
#define NEXT(id) \
    "LATERAL (SELECT w.target AS id FROM jobq.edges w WHERE w.job_id = " id " AND w.kind = 'awaits' AND " AWAITS_PERMANENTLY(id) \
    " UNION ALL SELECT h.id FROM jobq.jobs l, "                                                                  \
    "LATERAL (SELECT h.id FROM jobq.jobs h WHERE h._group_active = l._group_waiting OFFSET 0) h "                \
    "WHERE l.id = ANY (ARRAY[" id "]) AND l._group_waiting IS NOT NULL)"

// SQL condition: the job `from` waits for the job `target` permanently, directly or through other waiting jobs. The
// search gives up after $1 jobs.
#define WAITS_FOR(from, target) \
    "EXISTS (SELECT FROM (WITH RECURSIVE ahead (id) AS (SELECT " from " UNION "                        \
    "SELECT n.id FROM ahead a, " NEXT("a.id") " n WHERE " IS_HELD("n.id") ") "                         \
    "SELECT a.id FROM ahead a LIMIT $1) a, " NEXT("a.id") " n WHERE n.id = " target ")"

#define IS_AWAITED(id) "EXISTS (SELECT FROM jobq.edges w WHERE w.target = " id " AND w.kind = 'awaits' OFFSET 0)"
#define HEADS_A_LINE(id)                                                       \
    "EXISTS (SELECT FROM jobq.jobs h, jobq.jobs l WHERE h.id = ANY (ARRAY[" id \
    "]) "                                                                      \
    "AND l._group_waiting = h._group_active OFFSET 0)"

Statement find_one = {
    "SELECT u.id FROM unnest($3) WITH ORDINALITY AS u(id, n) "
    "WHERE (" IS_AWAITED("$2") " OR " HEADS_A_LINE("$2") ") AND u.id <> $2 AND " IS_HELD("u.id") " AND " WAITS_FOR(
        "u.id", "$2") " ORDER BY u.n LIMIT 1",
    {INT8OID, INT8OID, INT8ARRAYOID}};

Statement find_in_rings = {
    "SELECT u.id FROM (SELECT DISTINCT v.id FROM unnest($2) AS v(id)) u "
    "WHERE (" IS_AWAITED("u.id") " OR " HEADS_A_LINE("u.id") ") AND " AWAITS_PERMANENTLY("u.id") " AND " WAITS_FOR(
        "u.id", "u.id") " ORDER BY u.id DESC",
    {INT8OID, INT8ARRAYOID}};

Statement find_by_line = {
    "SELECT u.id, h.id FROM unnest($2, $3) AS u(id, line), "
    "LATERAL (SELECT h.id FROM jobq.jobs h WHERE h._group_active = u.line OFFSET 0) h "
    "WHERE " IS_AWAITED("u.id") " AND " IS_HELD("h.id") " AND " WAITS_FOR("h.id", "u.id"),
    {INT8OID, INT8ARRAYOID, INT8ARRAYOID}};

constexpr int64 kMostHeld = 1000;

Params first_params() { return Params().add(Int64GetDatum(kMostHeld)); }

}  // namespace

int64 find_one_waiting_for(int64 job, Datum ids, Snapshot snapshot) {
    const Rows rows = read(find_one, first_params().add(Int64GetDatum(job)).add(ids), snapshot);
    return rows.size() == 0 ? 0 : rows[0].int64_at(1);
}

Rows find_rings(Datum *jobs, int count) {
    return run(find_in_rings, first_params().add(array_of(jobs, count, INT8OID)));
}

Rows find_rings_by_line(Datum jobs, Datum groups) { return run(find_by_line, first_params().add(jobs).add(groups)); }

}  // namespace jobq
