// See enqueue.h. Every INSERT into jobq.jobs stands here.
#include "pg/pg.h"

#include "core/retry.h"
#include "pg/args.h"
#include "shared/publish.h"
#include "store/directory.h"
#include "store/enqueue.h"
#include "store/rows.h"

namespace jobq {

namespace {

Statement insert_one = {
    R"(INSERT INTO jobq.jobs (queue, kind, payload, priority, run_at, status, ready_at, due_at, max_attempts, version,
                              requires, heartbeat_timeout, metadata, created_at, lane)
       VALUES ($1, $2, $3, $4, $5,
               CASE WHEN $5 <= $11 THEN 'pending'::jobq.job_status ELSE 'scheduled'::jobq.job_status END,
               CASE WHEN $5 <= $11 THEN $5 END, CASE WHEN $5 > $11 THEN $5 END,
               $6, $7, $8, $9, $10, $11, $12)
       RETURNING id, queue, lane, priority, ready_at)",
    {TEXTOID, TEXTOID, JSONBOID, INT2OID, TIMESTAMPTZOID, INT4OID, INT4OID, TEXTARRAYOID, INTERVALOID, JSONBOID,
     TIMESTAMPTZOID, INT8OID}};

// unnest pads the arrays that are NULL, and coalesce puts what all jobs share in their place. A function scan returns
// its rows in order, so the ids are in the order of the payloads.
Statement insert_many = {
    R"(INSERT INTO jobq.jobs (queue, kind, payload, priority, run_at, status, ready_at, due_at, max_attempts, version,
                              requires, heartbeat_timeout, metadata, created_at, lane)
       SELECT $1, $2, u.payload, coalesce(u.priority, $4), coalesce(u.run_at, $5),
              CASE WHEN coalesce(u.run_at, $5) <= $11
                   THEN 'pending'::jobq.job_status ELSE 'scheduled'::jobq.job_status END,
              CASE WHEN coalesce(u.run_at, $5) <= $11 THEN coalesce(u.run_at, $5) END,
              CASE WHEN coalesce(u.run_at, $5) > $11 THEN coalesce(u.run_at, $5) END,
              $6, $7, $8, $9, $10, $11, $12
       FROM unnest($3, $13, $14) AS u(payload, run_at, priority)
       RETURNING id, queue, lane, priority, ready_at)",
    {TEXTOID, TEXTOID, JSONBARRAYOID, INT4OID, TIMESTAMPTZOID, INT4OID, INT4OID, TEXTARRAYOID, INTERVALOID, JSONBOID,
     TIMESTAMPTZOID, INT8OID, TIMESTAMPTZARRAYOID, INT4ARRAYOID}};

// A running job without a lease of ours still gets a deadline, so that it cannot run for ever.
Statement settle = {
    R"(UPDATE jobq.jobs j
       SET lane = $2,
           status = CASE WHEN j.status NOT IN ('pending', 'scheduled') THEN j.status
                         WHEN j.run_at <= $4 THEN 'pending'::jobq.job_status
                         ELSE 'scheduled'::jobq.job_status END,
           ready_at = CASE WHEN j.status IN ('pending', 'scheduled') AND j.run_at <= $4 THEN j.run_at END,
           due_at = CASE WHEN j.status IN ('pending', 'scheduled') AND j.run_at > $4 THEN j.run_at END,
           lease = CASE j.status WHEN 'processing' THEN j.lease END,
           watched = CASE j.status WHEN 'processing' THEN true END,
           last_heartbeat = CASE j.status WHEN 'processing' THEN coalesce(j.last_heartbeat, $4)
                                          ELSE j.last_heartbeat END,
           lease_timeout = CASE j.status WHEN 'processing' THEN coalesce(j.lease_timeout, j.heartbeat_timeout, $3)
                                         ELSE j.lease_timeout END,
           finished_at = CASE WHEN j.status IN ('completed', 'failed', 'cancelled')
                              THEN coalesce(j.finished_at, $4) END
       WHERE j.id = $1
       RETURNING )" READY_COLUMNS,
    {INT8OID, INT8OID, INTERVALOID, TIMESTAMPTZOID}};

// Also enters the lane into the directory.
int64 lane_of(const JobSpec &spec) {
    return ensure_lane(view(spec.queue), view(spec.kind), spec.version, spec.required);
}

Params shared_params(const JobSpec &spec, int64 lane, Datum payload, Datum priority, TimestampTz now) {
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
        .add(TimestampTzGetDatum(now))
        .add(Int64GetDatum(lane));
}

}  // namespace

int64 insert_job(const JobSpec &spec, TimestampTz now) {
    const int64 lane = lane_of(spec);
    Rows rows = run(insert_one, shared_params(spec, lane, spec.payload, Int16GetDatum(spec.priority), now));
    require_affected(1);
    const int64 id = rows[0].int64_at(1);
    if (spec.run_at > now) publish_due_at_commit(spec.run_at);
    // The place is the row's own: a BEFORE INSERT trigger of somebody's may have changed it.
    publish_ready_rows(rows, 1);
    rows.free();
    return id;
}

Rows insert_jobs(const JobSpec &shared, const JobColumns &columns, int count, TimestampTz now) {
    const int64 lane = lane_of(shared);
    Params params = shared_params(shared, lane, columns.payloads, Int32GetDatum(shared.priority), now);
    params.add_if(columns.has_run_ats, columns.run_ats).add_if(columns.has_priorities, columns.priorities);
    const Rows rows = run(insert_many, params);
    require_affected(count);
    publish_ready_rows(rows, 1);
    return rows;
}

void settle_job(int64 id, int64 lane, core::Micros default_timeout) {
    const Rows rows = run(settle, Params()
                                      .add(Int64GetDatum(id))
                                      .add(Int64GetDatum(lane))
                                      .add(IntervalPGetDatum(make_interval(default_timeout)))
                                      .add(TimestampTzGetDatum(GetCurrentTimestamp())));
    publish_ready_rows(rows, 1);
}

}  // namespace jobq
