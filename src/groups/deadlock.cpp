// See deadlock.h. Who waits for a job is found by the index on what is awaited, from the job backwards: mostly nobody,
// or the parents of a workflow. A job that very many await is looked at as far as kMostBehind of them.
#include "compat/pg.h"

#include "compat/args.h"
#include "groups/awaiting.h"
#include "groups/deadlock.h"
#include "steps/step_policy.h"

namespace jobq {

namespace {

// Of a job `id`: it waits for each of what it awaits, and for good. Any of one job, however often it is named, is all
// of it. $1: core::kAwaitsJobs.
#define WAITS_FOR_GOOD(id)                                                                \
    "EXISTS (SELECT FROM jobq.steps s WHERE s.job_id = " id                               \
    " AND s._awaited = $1 AND s.until IS NULL "                                           \
    "AND (s.kind = 'all' OR (SELECT min(u) = max(u) FROM pg_catalog.unnest(s.jobs) u))) " \
    "AND EXISTS (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[" id "]) AND " AWAITS_SOMETHING " OFFSET 0)"

// `from` and all that wait for it in this way, at most $2.
#define ALL_BEHIND(from) \
    "WITH RECURSIVE behind (id) AS (SELECT " from " UNION "                                                   \
    "SELECT w.job_id FROM behind b, "                                                                         \
    "LATERAL (SELECT w.job_id FROM jobq.job_waits w WHERE w.awaits = b.id OFFSET 0) w "                       \
    "WHERE " WAITS_FOR_GOOD("w.job_id") ") "                                                                  \
    "SELECT b.id FROM behind b LIMIT $2"

Statement find_one = {
    "SELECT u.id FROM unnest($4) WITH ORDINALITY AS u(id, n), (SELECT x.id FROM (" ALL_BEHIND("$3") ") x OFFSET 0) x "
    "WHERE u.id = x.id AND u.id <> $3 ORDER BY u.n LIMIT 1",
    {INT8OID, INT8OID, INT8OID, INT8ARRAYOID}};

Statement find_in_rings = {
    "SELECT u.id FROM (SELECT DISTINCT v.id FROM unnest($3) AS v(id)) u "
    "WHERE EXISTS (SELECT FROM jobq.job_waits w WHERE w.awaits = u.id OFFSET 0) "
    "AND EXISTS (SELECT FROM jobq.job_waits w WHERE w.job_id = u.id OFFSET 0) "
    "AND " WAITS_FOR_GOOD("u.id")
    " AND EXISTS (SELECT FROM (" ALL_BEHIND("u.id") ") x, jobq.job_waits w "
    "WHERE w.job_id = u.id AND w.awaits = x.id) ORDER BY u.id DESC",
    {INT8OID, INT8OID, INT8ARRAYOID}};

constexpr int64 kMostBehind = 1000;

Params first_params() { return Params().add(Int64GetDatum(core::kAwaitsJobs)).add(Int64GetDatum(kMostBehind)); }

}  // namespace

int64 find_one_behind(int64 job, Datum ids, Snapshot snapshot) {
    const Rows rows = read(find_one, first_params().add(Int64GetDatum(job)).add(ids), snapshot);
    return rows.size() == 0 ? 0 : rows[0].int64_at(1);
}

Rows find_rings(Datum *jobs, int count) {
    return run(find_in_rings, first_params().add(array_of(jobs, count, INT8OID)));
}

}  // namespace jobq
