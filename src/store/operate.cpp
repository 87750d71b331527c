// See operate.h.
#include "pg/pg.h"

#include "pg/args.h"
#include "settings.h"
#include "store/finish.h"
#include "store/operate.h"
#include "store/rows.h"

namespace jobq {

namespace {

Statement cancel = {
    R"(UPDATE jobq.jobs j
       SET status = CASE j.status WHEN 'processing' THEN 'processing'::jobq.job_status
                                  ELSE 'cancelled'::jobq.job_status END,
           finished_at = CASE j.status WHEN 'processing' THEN j.finished_at ELSE $2 END,
           cancel_requested_at = coalesce(j.cancel_requested_at, $2), ready_at = NULL, due_at = NULL,
           watched = CASE j.status WHEN 'processing' THEN true END
       WHERE j.id = ANY ($1) AND j.status IN ('scheduled', 'blocked', 'pending', 'processing')
       RETURNING j.id, j.status::text)",
    {INT8ARRAYOID, TIMESTAMPTZOID}};

Statement retry = {
    R"(UPDATE jobq.jobs j
       SET status = 'pending', run_at = $2, ready_at = $2, due_at = NULL,
           max_attempts = greatest(j.max_attempts, j.attempts + 1),
           lost_attempts = 0, finished_at = NULL, result = NULL, cancel_requested_at = NULL
       WHERE j.id = ANY ($1) AND j.status IN ('scheduled', 'completed', 'failed', 'cancelled')
       RETURNING j.id, j.status::text, )" READY_COLUMNS,
    {INT8ARRAYOID, TIMESTAMPTZOID}};

Statement reschedule = {
    R"(UPDATE jobq.jobs j
       SET run_at = $3, ready_at = CASE WHEN $3 <= $2 THEN $3 END, due_at = CASE WHEN $3 > $2 THEN $3 END,
           status = CASE WHEN $3 <= $2 THEN 'pending'::jobq.job_status ELSE 'scheduled'::jobq.job_status END
       WHERE j.id = ANY ($1) AND j.status IN ('scheduled', 'pending')
       RETURNING j.id, j.status::text, )" READY_COLUMNS,
    {INT8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

Statement remove = {
    R"(WITH gone AS (DELETE FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status <> 'processing'
                     RETURNING j.id, j.status::text),
            history AS (DELETE FROM jobq.attempts a USING gone g WHERE a.job_id = g.id)
       SELECT g.id, g.status FROM gone g)",
    {INT8ARRAYOID}};

Statement match = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.queue = $1 AND ($2 IS NULL OR j.kind = $2) AND j.status::text = ANY ($3)
         AND ($4 IS NULL OR j.error LIKE $4)
         AND ($5 IS NULL OR j.created_at < $5)
         AND ($6 IS NULL OR j.metadata @> $6)
       ORDER BY j.id
       LIMIT $7
       FOR NO KEY UPDATE SKIP LOCKED)",
    {TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, INT8OID},
    Planning::Free};

Statement get_status = {"SELECT j.status::text FROM jobq.jobs j WHERE j.id = $1", {INT8OID}};

Statement get_job = {
    R"(SELECT j.id, j.queue, j.kind, j.payload, j.priority::int4, j.status, j.run_at, j.attempts, j.max_attempts,
              j.worker_id, j.started_at, j.last_heartbeat, coalesce(j.lease_timeout, j.heartbeat_timeout),
              j.created_at, j.finished_at, j.result, j.error, j.progress, j.version, j.requires,
              j.cancel_requested_at, j.metadata
       FROM jobq.jobs j WHERE j.id = $1)",
    {INT8OID}};

// The rows of retry and reschedule, after telling of the jobs that they made claimable.
Rows publish_ready(const Rows &rows) {
    publish_ready_rows(rows, 3);
    return rows;
}

}  // namespace

bool operation_applies(Operation operation, core::JobStatus status) {
    using core::JobStatus;
    switch (operation) {
        case Operation::Cancel:
            return !core::is_finished(status);
        case Operation::Retry:
            return core::is_finished(status) || status == JobStatus::Scheduled;
        case Operation::Reschedule:
            return status == JobStatus::Scheduled || status == JobStatus::Pending;
        case Operation::Delete:
            return status != JobStatus::Processing;
    }
    return false;
}

Rows operate(Operation operation, Datum ids, TimestampTz run_at, TimestampTz now) {
    const Datum now_datum = TimestampTzGetDatum(now);
    switch (operation) {
        case Operation::Cancel:
            publish_lease_deadline_at_commit(core::saturating_add(now, settings.cancel_grace_ms * INT64CONST(1000)));
            return run(cancel, Params().add(ids).add(now_datum));
        case Operation::Retry:
            return publish_ready(run(retry, Params().add(ids).add(now_datum)));
        case Operation::Reschedule:
            if (run_at > now) publish_due_at_commit(run_at);
            return publish_ready(run(reschedule, Params().add(ids).add(now_datum).add(TimestampTzGetDatum(run_at))));
        case Operation::Delete:
            break;
    }
    return run(remove, Params().add(ids));
}

Rows lock_matching(const JobFilter &filter) {
    Datum names[core::kJobStatusCount];
    int count = 0;
    for (int i = 0; i < core::kJobStatusCount; i++)
        if (filter.statuses[i])
            names[count++] = CStringGetTextDatum(core::status_name(static_cast<core::JobStatus>(i)));
    return run(match, Params()
                          .add(PointerGetDatum(filter.queue))
                          .add_if(filter.kind != nullptr, PointerGetDatum(filter.kind))
                          .add(array_of(names, count, TEXTOID))
                          .add_if(filter.error_like != nullptr, PointerGetDatum(filter.error_like))
                          .add_if(filter.has_created_before, TimestampTzGetDatum(filter.created_before))
                          .add_if(filter.has_metadata, filter.metadata)
                          .add(Int64GetDatum(filter.max_jobs)));
}

bool current_status(int64 job_id, core::JobStatus *status) {
    const Rows rows = run(get_status, Params().add(Int64GetDatum(job_id)));
    return rows.size() == 1 && core::parse_status(TextDatumGetCString(rows[0].get(1)), status);
}

Rows read_job(int64 job_id) { return read(get_job, Params().add(Int64GetDatum(job_id))); }

}  // namespace jobq
