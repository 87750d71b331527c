// The SQL functions jobq_get(), jobq_log(), and jobq_result(), which return information about one job.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "queues/granted.h"
#include "row/owner.h"
#include "steps/steps.h"

namespace jobq {

namespace {

Statement get_job = {
    R"(SELECT j.id, j.queue, j.kind, j.payload, j.priority::int4, j.status, j.run_at, j.attempts, j.max_attempts,
              j.worker_id, j.started_at, j.last_heartbeat, 
              CASE WHEN j._lease_timeout >= )" ENDLESS_LEASE R"( THEN NULL
                   ELSE coalesce(j._lease_timeout, CASE WHEN j.started_at IS NOT NULL THEN )" USUAL_LEASE R"( END,
                                 j.heartbeat_timeout) END,
              j.created_at, j.finished_at, j.result, j.error, j.progress, j.version, j.requires,
              j.cancel_requested_at, j.metadata
       FROM jobq.jobs j WHERE j.id = $1)",
    {INT8OID}};

Statement get_result = {"SELECT j.result FROM jobq.jobs j WHERE j.id = $1 AND j.status = 'completed'", {INT8OID}};

// Selects the events in the history of a job. Events at the same time are ordered by their rank. Attempts are read from
// jobq.attempts, but the latest attempt is read from the job if it is not in jobq.attempts yet. If the job was canceled
// without a request for cancellation, its error is reported as the reason, unless an earlier attempt has the same
// error. The event "due" is selected only for a scheduled job, because no other job has a due time in the future. The
// event "expires" also tells what will happen, because only a waiting job has expires_at. The number orders log lines
// that have the same time.
Statement get_log = {
    R"(SELECT e.at, e.event, e.attempt, e.worker_id, e.detail, e.details
       FROM jobq.jobs j,
            LATERAL (SELECT j.created_at AS at, 0 AS rank, 0 AS number, 'enqueued' AS event, NULL::integer AS attempt,
                            NULL::text AS worker_id, coalesce(j.dead_from, j.queue) AS detail, NULL::jsonb AS details
                     UNION ALL
                     SELECT j.created_at, 0, 1, 'batch', NULL, NULL, j.batch_id::text, NULL
                     WHERE j.batch_id IS NOT NULL
                     UNION ALL
                     SELECT l.written_at, 2, l.number, 'log ' || l.level || CASE WHEN l.late THEN ' (late)' ELSE '' END,
                            l.attempt, NULL, l.line, NULL
                     FROM jobq.log_lines l WHERE l.job_id = j.id AND l.level <> 'operator'
                     UNION ALL
                     SELECT l.written_at, 2, l.number, 'operator', NULL, NULL, l.line, NULL
                     FROM jobq.log_lines l WHERE l.job_id = j.id AND l.level = 'operator'
                     UNION ALL
                     SELECT a.started_at, 1, 0, 'claimed', a.attempt, a.worker_id, NULL, NULL
                     FROM jobq.attempts a WHERE a.job_id = j.id AND a.started_at IS NOT NULL
                     UNION ALL
                     SELECT j.started_at, 1, 0, 'claimed', j.attempts, j.worker_id, NULL, NULL
                     WHERE j.started_at IS NOT NULL
                       AND NOT EXISTS (SELECT FROM jobq.attempts a WHERE a.job_id = j.id AND a.started_at = j.started_at)
                     UNION ALL
                     SELECT j.last_heartbeat, 2, 0, 'heartbeat', j.attempts, j.worker_id, NULL, NULL
                     WHERE j.status = 'processing' AND j.last_heartbeat > j.started_at
                     UNION ALL
                     SELECT j.cancel_requested_at, 3, 0, 'cancel requested', NULL, NULL, NULL, NULL
                     WHERE j.cancel_requested_at IS NOT NULL
                     UNION ALL
                     SELECT a.finished_at, 4, 0, 'attempt ' || a.outcome, a.attempt, a.worker_id, a.error, a.details
                     FROM jobq.attempts a WHERE a.job_id = j.id
                     UNION ALL
                     SELECT j.finished_at, 5, 0, j.status::text, CASE j.status WHEN 'completed' THEN nullif(j.attempts, 0) END,
                            CASE j.status WHEN 'completed' THEN j.worker_id END,
                            CASE WHEN j.status = 'failed' OR j.status = 'cancelled' AND j.cancel_requested_at IS NULL
                                      AND NOT EXISTS (SELECT FROM jobq.attempts a WHERE a.job_id = j.id
                                                      AND a.error = j.error AND a.finished_at < j.finished_at)
                                 THEN j.error END, NULL
                     WHERE j.finished_at IS NOT NULL AND j.status > 'processing'
                     UNION ALL
                     SELECT j.finished_at, 6, 0, 'dead letter', NULL, NULL, j.queue, NULL
                     WHERE j.finished_at IS NOT NULL AND j.dead_from IS NOT NULL
                     UNION ALL
                     SELECT j.finished_at, 6, 0, 'group halted', NULL, NULL, j.group_key, NULL
                     WHERE j.status = 'failed' AND j._group_active IS NOT NULL
                     UNION ALL
                     SELECT u.at, 2, 0, u.event, NULL, NULL, u.detail, NULL FROM unnest($2, $3, $4) AS u(at, event, detail)
                     UNION ALL
                     SELECT j.run_at, 7, 0, 'due', NULL, NULL, NULL, NULL WHERE j.status = 'scheduled'
                     UNION ALL
                     SELECT j.expires_at, 8, 0, 'expires', NULL, NULL, NULL, NULL WHERE j.expires_at IS NOT NULL) e
       WHERE j.id = $1
       ORDER BY e.at, e.rank, e.attempt, e.number)",
    {INT8OID, TIMESTAMPTZARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};

Rows read_result(int64 job_id) { return read(get_result, Params().add(Int64GetDatum(job_id))); }

Rows read_job(int64 job_id) { return read(get_job, Params().add(Int64GetDatum(job_id))); }

Rows read_log(int64 job_id) {
    Params params;
    params.add(Int64GetDatum(job_id));
    const Rows events = read_step_events(job_id);
    for (int i = 1; i <= 3; i++) {
        bool none = true;
        const Datum column = events.size() == 1 ? events[0].get(i, &none) : Datum(0);
        params.add_if(!none, column);
    }
    return read(get_log, params);
}

// Returns the rows of read_rows(job_id), or no rows if the job is out of scope.
Datum return_rows(FunctionCallInfo fcinfo, Rows (*read_rows)(int64)) {
    const int64 id = require_int64(fcinfo, 0, "job_id");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        if (job_is_in_scope(scope, id)) results.rows(read_rows(id));
    });
    return results.done();
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_get);
PGDLLEXPORT Datum jobq_get(PG_FUNCTION_ARGS) { return return_rows(fcinfo, read_job); }

PG_FUNCTION_INFO_V1(jobq_log);
PGDLLEXPORT Datum jobq_log(PG_FUNCTION_ARGS) { return return_rows(fcinfo, read_log); }

PG_FUNCTION_INFO_V1(jobq_result);
PGDLLEXPORT Datum jobq_result(PG_FUNCTION_ARGS) {
    const int64 id = require_int64(fcinfo, 0, "job_id");
    const QueueScope *scope = scope_of(fcinfo);
    bool none = true;
    const Datum result = with_owner_spi([&] {
        if (!job_is_in_scope(scope, id)) return Datum(0);
        const Rows rows = read_result(id);
        const Datum value = rows.size() == 1 ? rows[0].get(1, &none) : Datum(0);
        return none ? Datum(0) : SPI_datumTransfer(value, false, -1);
    });
    if (none) PG_RETURN_NULL();
    PG_RETURN_DATUM(result);
}

}  // extern "C"

}  // namespace jobq
