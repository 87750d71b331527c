// See awaits.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "edges/awaits.h"
#include "edges/edges.h"

namespace jobq {

namespace {

// SQL conditions. IS_OWN_CHILD is true if the awaiter $1 has spawned the job `id`. VISIBLE is true if the awaiter can
// see the job j: either the job is in the awaiter's scope ($3), or the awaiter has spawned the job, no matter in which
// queue the job is. A dead letter is in scope only if its home queue is in scope, because the job can complete in that
// queue.
#define IS_OWN_CHILD(id) \
    "EXISTS (SELECT FROM jobq.edges c WHERE c.job_id = $1 AND c.kind = 'child' AND c.target = " id ")"
#define VISIBLE "(" HOME_IN_SCOPE("$3") " OR " IS_OWN_CHILD("j.id") ")"

Statement get_states = {
    R"(SELECT u.id, j.status::text, j.queue = $4 COLLATE "C" AND j.group_key = $5
       FROM unnest($2) WITH ORDINALITY AS u(id, n)
            LEFT JOIN LATERAL (SELECT j.status, j.queue, j.group_key FROM jobq.jobs j
                               WHERE j.id = ANY (ARRAY[u.id]) AND )" VISIBLE R"() j ON true
       ORDER BY u.n)",
    {INT8OID, INT8ARRAYOID, TEXTARRAYOID, TEXTOID, TEXTOID}};

Statement get_results = {
    R"(SELECT coalesce(jsonb_agg(jsonb_build_object('job_id', u.id, 'status', coalesce(j.status::text, g.status), 'result',
                                                    CASE WHEN j.status IS NULL THEN g.result ELSE j.result END)
                                 ORDER BY u.n), '[]')
       FROM unnest($2) WITH ORDINALITY AS u(id, n)
            LEFT JOIN LATERAL (SELECT j.status, j.result FROM jobq.jobs j
                               WHERE j.id = ANY (ARRAY[u.id]) AND )" VISIBLE R"() j ON true
            LEFT JOIN LATERAL (SELECT 'completed' AS status, r.result FROM jobq.deleted_dependencies r
                               WHERE r.job_id = ANY (ARRAY[u.id]) AND j.status IS NULL
                                 AND ()" IS_OWN_CHILD("u.id") R"(
                                      OR EXISTS (SELECT FROM jobq.edges w
                                                 WHERE w.job_id = $1 AND w.kind = 'awaits' AND w.target = u.id))
                               LIMIT 1) g ON true)",
    {INT8OID, INT8ARRAYOID, TEXTARRAYOID}};

Statement add = {
    R"(INSERT INTO jobq.edges (job_id, kind, target, on_failure, active)
       SELECT $1, 'awaits', u.id, NULL, CASE WHEN $3 IN (0, u.id) THEN true END FROM unnest($2) AS u(id)
       ON CONFLICT DO NOTHING)",
    {INT8OID, INT8ARRAYOID, INT8OID}};
Statement find_wait = {
    "SELECT FROM jobq.steps s WHERE s.job_id = $1 AND s.state = 'waiting' AND s.kind IN ('all', 'any') LIMIT 1",
    {INT8OID}};

}  // namespace

Rows read_awaited_jobs(const Awaiter &awaiter, Datum ids, Snapshot snapshot) {
    return read(get_states,
                Params()
                    .add(Int64GetDatum(awaiter.job))
                    .add(ids)
                    .add_if(awaiter.scope != nullptr, scope_array(awaiter.scope))
                    .add(PointerGetDatum(awaiter.queue))
                    .add_if(awaiter.group_key != nullptr, PointerGetDatum(awaiter.group_key)),
                snapshot);
}

Datum read_results(const Awaiter &awaiter, Datum ids, Snapshot snapshot) {
    return read(get_results,
                Params()
                    .add(Int64GetDatum(awaiter.job))
                    .add(ids)
                    .add_if(awaiter.scope != nullptr, scope_array(awaiter.scope)),
                snapshot)[0]
        .get(1);
}

void await_jobs(int64 job, Datum ids, int64 active) {
    forget_waits(job);
    run(add, Params().add(Int64GetDatum(job)).add(ids).add(Int64GetDatum(active)));
}

void forget_waits(int64 job) {
    Datum id = Int64GetDatum(job);
    forget_waits(&id, 1);
}

void forget_waits(Datum *jobs, int count) {
    if (any_active(EdgeKind::Awaits)) forget_edges_from(jobs, count, EdgeKind::Awaits);
}

void forget_waits_without_step(int64 job) {
    if (run(find_wait, Params().add(Int64GetDatum(job))).size() == 0) forget_waits(job);
}

}  // namespace jobq
