// See operate.h.
#include "compat/pg.h"

#include "admin/operate.h"
#include "admin/retry.h"
#include "compat/args.h"
#include "compat/memory.h"
#include "finish/ending.h"
#include "job/change_job.h"
#include "log/rows.h"
#include "queues/directory.h"
#include "row/locked_jobs.h"
#include "row/status.h"
#include "steps/steps.h"

namespace jobq {

namespace {

// The scope is checked in the statement that waits for the row, because a dead letter may have been moved back by then.
#define APPLICABLE(in_scope) \
    "FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status::text = ANY ($2) AND " in_scope " ORDER BY j.id "

Statement lock_to_change = {"SELECT " LOCKED_COLUMNS " " APPLICABLE(IN_SCOPE("$3")) "FOR NO KEY UPDATE",
                            {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};
Statement lock_to_retry = {"SELECT " LOCKED_COLUMNS " " APPLICABLE(HOME_IN_SCOPE("$3")) "FOR NO KEY UPDATE",
                           {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};

// Locks the jobs in a separate statement before the delete, because the delete must see attempts that were recorded by
// the sessions that held the rows until now.
Statement lock_to_delete = {"SELECT j.id, j.status::text " APPLICABLE(IN_SCOPE("$3")) "FOR UPDATE",
                            {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};

#define MATCHING                                                                       \
    "SELECT j.id FROM jobq.jobs j "                                                    \
    "WHERE j.queue = $1 AND ($2 IS NULL OR j.kind = $2) "                              \
    "AND j.status::text = ANY ($3) AND ($4 IS NULL OR j.error LIKE $4) "               \
    "AND ($5 IS NULL OR j.created_at < $5) AND ($6 IS NULL OR j.metadata @> $6) "      \
    "AND ($7 IS NULL OR j.concurrency_key = $7) AND ($8 IS NULL OR j.group_key = $8) " \
    "AND ($9 IS NULL OR j.version = $9) "
#define FIRST_UNHELD "ORDER BY j.id LIMIT $10 FOR NO KEY UPDATE SKIP LOCKED"
#define MATCHING_TYPES \
    TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, TEXTOID, TEXTOID, INT4OID, INT8OID

Statement match = {MATCHING FIRST_UNHELD, {MATCHING_TYPES}, Planning::Free};
// The next three statements leave out jobs that the operation would not change. Otherwise a repeated call would find
// the same jobs again.
Statement match_unasked = {MATCHING "AND (j.status <> 'processing' OR j.cancel_requested_at IS NULL) " FIRST_UNHELD,
                           {MATCHING_TYPES},
                           Planning::Free};
// $11: when the jobs must run; $12: now.
Statement match_at_other_time = {MATCHING
                                 "AND (j.run_at <> $11 OR (j.status = 'pending') <> ($11 <= $12)) " FIRST_UNHELD,
                                 {MATCHING_TYPES, TIMESTAMPTZOID, TIMESTAMPTZOID},
                                 Planning::Free};
Statement match_with_free_key = {MATCHING "AND " KEY_IS_FREE("$11") " AND " HOME_IN_SCOPE("$12") " " FIRST_UNHELD,
                                 {MATCHING_TYPES, TIMESTAMPTZOID, TEXTARRAYOID},
                                 Planning::Free};

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

// Each part has a rank, which orders events of the same instant. Attempts are read from jobq.attempts, and the latest
// attempt from the job unless it is already there. The error of a cancelled job is reported as the reason if
// cancellation was not requested and no earlier attempt has the same error. Only a scheduled job has a due time
// in the future.
Statement get_log = {
    R"(SELECT e.at, e.event, e.attempt, e.worker_id, e.detail
       FROM jobq.jobs j,
            LATERAL (SELECT j.created_at AS at, 0 AS rank, 'enqueued' AS event, NULL::integer AS attempt,
                            NULL::text AS worker_id, coalesce(j.dead_from, j.queue) AS detail
                     UNION ALL
                     SELECT a.started_at, 1, 'claimed', a.attempt, a.worker_id, NULL
                     FROM jobq.attempts a WHERE a.job_id = j.id AND a.started_at IS NOT NULL
                     UNION ALL
                     SELECT j.started_at, 1, 'claimed', j.attempts, j.worker_id, NULL
                     WHERE j.started_at IS NOT NULL
                       AND NOT EXISTS (SELECT FROM jobq.attempts a WHERE a.job_id = j.id AND a.started_at = j.started_at)
                     UNION ALL
                     SELECT j.last_heartbeat, 2, 'heartbeat', j.attempts, j.worker_id, NULL
                     WHERE j.status = 'processing' AND j.last_heartbeat > j.started_at
                     UNION ALL
                     SELECT j.cancel_requested_at, 3, 'cancel requested', NULL, NULL, NULL
                     WHERE j.cancel_requested_at IS NOT NULL
                     UNION ALL
                     SELECT a.finished_at, 4, 'attempt ' || a.outcome, a.attempt, a.worker_id, a.error
                     FROM jobq.attempts a WHERE a.job_id = j.id
                     UNION ALL
                     SELECT j.finished_at, 5, j.status::text, CASE j.status WHEN 'completed' THEN nullif(j.attempts, 0) END,
                            CASE j.status WHEN 'completed' THEN j.worker_id END,
                            CASE WHEN j.status = 'failed' OR j.status = 'cancelled' AND j.cancel_requested_at IS NULL
                                      AND NOT EXISTS (SELECT FROM jobq.attempts a WHERE a.job_id = j.id
                                                      AND a.error = j.error AND a.finished_at < j.finished_at)
                                 THEN j.error END
                     WHERE j.finished_at IS NOT NULL AND j.status > 'processing'
                     UNION ALL
                     SELECT j.finished_at, 6, 'dead letter', NULL, NULL, j.queue
                     WHERE j.finished_at IS NOT NULL AND j.dead_from IS NOT NULL
                     UNION ALL
                     SELECT u.at, 2, u.event, NULL, NULL, u.detail FROM unnest($2, $3, $4) AS u(at, event, detail)
                     UNION ALL
                     SELECT j.run_at, 7, 'due', NULL, NULL, NULL WHERE j.status = 'scheduled') e
       WHERE j.id = $1
       ORDER BY e.at, e.rank, e.attempt)",
    {INT8OID, TIMESTAMPTZARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};

Operated apply_event(const Rows &locked, const core::Event &event) {
    auto *ids = allocate_array<Datum>(locked.size());
    for (uint64 i = 0; i < locked.size(); i++) ids[i] = locked[i].get(1);
    return apply_and_end(ids, static_cast<int>(locked.size()), event);
}

Datum applicable_statuses(Operation operation) {
    return names_of_statuses([&](core::JobStatus status) { return operation_applies(operation, status); });
}

Params choice(Operation operation, Datum ids, const QueueScope *scope) {
    return Params().add(ids).add(applicable_statuses(operation)).add_if(scope != nullptr, scope_array(scope));
}

Operated delete_them(Datum ids, const QueueScope *scope) {
    const Rows locked = run(lock_to_delete, choice(Operation::Delete, ids, scope));
    Operated operated = {0, core::JobStatus::Pending};
    auto *removable = allocate_array<Datum>(locked.size());
    for (uint64 i = 0; i < locked.size(); i++) {
        removable[i] = locked[i].get(1);
        operated.status = status_at(locked[i], 2);
    }
    operated.count = delete_jobs(removable, static_cast<int>(locked.size()));
    return operated;
}

}  // namespace

bool operation_applies(Operation operation, core::JobStatus status) {
    core::Life life = {};
    life.status = status;
    switch (operation) {
        case Operation::Cancel:
            return core::applies(core::EventKind::Cancelled, life);
        case Operation::Retry:
            return core::applies(core::EventKind::Retried, life);
        case Operation::Reschedule:
            return core::applies(core::EventKind::Rescheduled, life);
        case Operation::Delete:
            return status != core::JobStatus::Processing;
    }
    return false;
}

Rows lock_applicable(Operation operation, Datum ids, const QueueScope *scope) {
    return run(operation == Operation::Retry ? lock_to_retry : lock_to_change, choice(operation, ids, scope));
}

Operated operate(Operation operation, Datum ids, const QueueScope *scope, TimestampTz run_at, TimestampTz now) {
    core::Event reschedule = {core::EventKind::Rescheduled, now};
    reschedule.run_at = run_at;
    switch (operation) {
        case Operation::Cancel:
            return apply_event(lock_applicable(operation, ids, scope), {core::EventKind::Cancelled, now});
        case Operation::Retry:
            return retry_jobs(ids, scope, now);
        case Operation::Reschedule:
            return apply_event(lock_applicable(operation, ids, scope), reschedule);
        case Operation::Delete:
            break;
    }
    return delete_them(ids, scope);
}

int64 operate_on_many(Operation operation, Datum ids, TimestampTz run_at, TimestampTz now) {
    if (operation == Operation::Retry) return retry_those_with_free_keys(ids, now);
    return operate(operation, ids, nullptr, run_at, now).count;
}

Rows lock_matching(const JobFilter &filter, Operation operation, TimestampTz run_at, TimestampTz now) {
    Params params;
    params.add(PointerGetDatum(filter.queue))
        .add_if(filter.kind != nullptr, PointerGetDatum(filter.kind))
        .add(filter.statuses)
        .add_if(filter.error_like != nullptr, PointerGetDatum(filter.error_like))
        .add_if(filter.has_created_before, TimestampTzGetDatum(filter.created_before))
        .add_if(filter.has_metadata, filter.metadata)
        .add_if(filter.concurrency_key != nullptr, PointerGetDatum(filter.concurrency_key))
        .add_if(filter.group_key != nullptr, PointerGetDatum(filter.group_key))
        .add_if(filter.has_version, Int32GetDatum(filter.version))
        .add(Int64GetDatum(filter.max_jobs));
    switch (operation) {
        case Operation::Cancel:
            return run(match_unasked, params);
        case Operation::Retry:
            params.add(TimestampTzGetDatum(now)).add_if(filter.scope != nullptr, scope_array(filter.scope));
            return run(match_with_free_key, params);
        case Operation::Reschedule:
            return run(match_at_other_time, params.add(TimestampTzGetDatum(run_at)).add(TimestampTzGetDatum(now)));
        case Operation::Delete:
            break;
    }
    return run(match, params);
}

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

}  // namespace jobq
