// See enqueue.h. Every INSERT into jobq.jobs stands here.
#include "pg/pg.h"

#include "core/retry.h"
#include "pg/args.h"
#include "shared_state.h"
#include "store/directory.h"
#include "store/enqueue.h"
#include "store/rows.h"

namespace jobq {

namespace {

// All values are given, so the fill_job trigger does not fire.
Statement insert_one = {
    R"(INSERT INTO jobq.jobs (queue, kind, payload, priority, run_at, status, max_attempts, version, requires,
                              heartbeat_timeout, metadata, created_at)
       VALUES ($1, $2, $3, $4, $5,
               CASE WHEN $5 <= $11 THEN 'pending'::jobq.job_status ELSE 'scheduled'::jobq.job_status END,
               $6, $7, $8, $9, $10, $11)
       RETURNING id)",
    {TEXTOID, TEXTOID, JSONBOID, INT2OID, TIMESTAMPTZOID, INT4OID, INT4OID, TEXTARRAYOID, INTERVALOID, JSONBOID,
     TIMESTAMPTZOID}};

// unnest pads the arrays that are NULL, and coalesce puts what all jobs share in their place. A function scan returns
// its rows in order, so the ids are in the order of the payloads.
Statement insert_many = {
    R"(INSERT INTO jobq.jobs (queue, kind, payload, priority, run_at, status, max_attempts, version, requires,
                              heartbeat_timeout, metadata, created_at)
       SELECT $1, $2, u.payload, coalesce(u.priority, $4), coalesce(u.run_at, $5),
              CASE WHEN coalesce(u.run_at, $5) <= $11
                   THEN 'pending'::jobq.job_status ELSE 'scheduled'::jobq.job_status END,
              $6, $7, $8, $9, $10, $11
       FROM unnest($3, $12, $13) AS u(payload, run_at, priority)
       RETURNING id)",
    {TEXTOID, TEXTOID, JSONBARRAYOID, INT4OID, TIMESTAMPTZOID, INT4OID, INT4OID, TEXTARRAYOID, INTERVALOID, JSONBOID,
     TIMESTAMPTZOID, TIMESTAMPTZARRAYOID, INT4ARRAYOID}};

Statement specs_to_rows = {
    R"(SELECT (SELECT k FROM jsonb_object_keys(e.spec) AS k
               WHERE k <> ALL ('{queue,payload,kind,priority,run_at,max_attempts,unique_key,on_conflict,unique_for,
                                 group_key,concurrency_key,depends_on,on_dependency_failure,version,requires,
                                 heartbeat_timeout,max_runtime,metadata}'::text[]) LIMIT 1),
              r.queue, e.spec -> 'payload', r.kind, r.priority, r.run_at, r.max_attempts, r.version, r.requires,
              r.heartbeat_timeout, nullif(e.spec -> 'metadata', 'null'),
              (SELECT k FROM jsonb_each(e.spec) AS f(k, v)
               WHERE k = ANY ('{unique_key,unique_for,group_key,concurrency_key,depends_on,max_runtime}'::text[])
                 AND v <> 'null' LIMIT 1)
       FROM jsonb_array_elements($1) WITH ORDINALITY AS e(spec, ord),
            jsonb_to_record(e.spec) AS r(queue text, kind text, priority int, run_at timestamptz, max_attempts int,
                                         version int, requires text[], heartbeat_timeout interval)
       ORDER BY e.ord)",
    {JSONBOID},
    Planning::Free};

Params shared_params(const JobSpec &spec, Datum payload, Datum priority, TimestampTz now) {
    return Params()
        .add(PointerGetDatum(spec.queue))
        .add(PointerGetDatum(spec.kind))
        .add(payload)
        .add(priority)
        .add(TimestampTzGetDatum(spec.run_at))
        .add(Int32GetDatum(spec.max_attempts))
        .add(Int32GetDatum(spec.version))
        .add_if(spec.required != nullptr, PointerGetDatum(spec.required))
        .add_if(spec.heartbeat_timeout != nullptr, PointerGetDatum(spec.heartbeat_timeout))
        .add_if(spec.has_metadata, spec.metadata)
        .add(TimestampTzGetDatum(now));
}

}  // namespace

int64 insert_job(const JobSpec &spec, TimestampTz now) {
    ensure_lane(view(spec.queue), view(spec.kind), spec.version, spec.required);
    Rows rows = run(insert_one, shared_params(spec, spec.payload, Int16GetDatum(spec.priority), now));
    if (spec.run_at > now) publish_due_at_commit(spec.run_at);
    require_affected(1);
    const int64 id = rows[0].int64_at(1);
    rows.free();
    return id;
}

Rows insert_jobs(const JobSpec &shared, const JobColumns &columns, TimestampTz now) {
    ensure_lane(view(shared.queue), view(shared.kind), shared.version, shared.required);
    Params params = shared_params(shared, columns.payloads, Int32GetDatum(shared.priority), now);
    params.add_if(columns.has_run_ats, columns.run_ats).add_if(columns.has_priorities, columns.priorities);
    return run(insert_many, params);
}

Rows read_specs(Datum specs) { return read(specs_to_rows, Params().add(specs)); }

}  // namespace jobq
