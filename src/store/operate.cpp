// See operate.h.
#include "pg/pg.h"

#include "pg/args.h"
#include "shared/publish.h"
#include "store/dependencies.h"
#include "store/directory.h"
#include "store/finish.h"
#include "store/groups.h"
#include "store/kept_keys.h"
#include "store/locked_jobs.h"
#include "store/operate.h"
#include "store/references.h"
#include "store/revive.h"
#include "store/rows.h"

namespace jobq {

namespace {

Statement lock_cancellable = {LOCK_APPLICABLE("'scheduled', 'blocked', 'pending', 'processing'"), {INT8ARRAYOID}};
Statement lock_waiting = {LOCK_APPLICABLE("'scheduled', 'pending'"), {INT8ARRAYOID}};

Statement cancel = {
    R"(UPDATE jobq.jobs j
       SET status = CASE j.status WHEN 'processing' THEN 'processing'::jobq.job_status
                                  ELSE 'cancelled'::jobq.job_status END,
           finished_at = CASE j.status WHEN 'processing' THEN j.finished_at ELSE $2 END,
           cancel_requested_at = coalesce(j.cancel_requested_at, $2), ready_at = NULL, due_at = NULL,
           unique_held = CASE j.status WHEN 'processing' THEN j.unique_held END,
           group_waiting = NULL, group_active = CASE j.status WHEN 'processing' THEN j.group_active END,
           watched = CASE j.status WHEN 'processing' THEN true END
       WHERE j.id = ANY ($1)
       RETURNING j.id, j.status::text, j.status = 'cancelled' AND j.unique_for IS NOT NULL, j.queue)",
    {INT8ARRAYOID, TIMESTAMPTZOID}};

Statement reschedule = {
    R"(UPDATE jobq.jobs j
       SET run_at = $3, ready_at = CASE WHEN $3 <= $2 THEN $3 END, due_at = CASE WHEN $3 > $2 THEN $3 END,
           status = CASE WHEN $3 <= $2 THEN 'pending'::jobq.job_status ELSE 'scheduled'::jobq.job_status END
       WHERE j.id = ANY ($1)
       RETURNING j.id, j.status::text, )" READY_COLUMNS,
    {INT8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

// First, and apart: the statement that deletes must see the attempts of whoever held the row until now.
Statement lock_removable = {
    R"(SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status <> 'processing' ORDER BY j.id FOR UPDATE)",
    {INT8ARRAYOID}};

Statement remove = {
    R"(WITH gone AS (DELETE FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status <> 'processing'
                     RETURNING j.id, j.status, j.queue, j.result, j.group_active),
            history AS (DELETE FROM jobq.attempts a USING gone g WHERE a.job_id = g.id))" FORGET_DEPENDENCIES R"(
       SELECT g.id, g.status::text, g.queue, g.status::text, g.group_active FROM gone g)",
    {INT8ARRAYOID}};

#define MATCHING                                                         \
    "SELECT j.id FROM jobq.jobs j "                                      \
    "WHERE j.queue = $1 AND ($2 IS NULL OR j.kind = $2) "                \
    "AND j.status::text = ANY ($3) AND ($4 IS NULL OR j.error LIKE $4) " \
    "AND ($5 IS NULL OR j.created_at < $5) AND ($6 IS NULL OR j.metadata @> $6) "
#define FIRST_UNHELD "ORDER BY j.id LIMIT $7 FOR NO KEY UPDATE SKIP LOCKED"

Statement match = {MATCHING FIRST_UNHELD,
                   {TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, INT8OID},
                   Planning::Free};
// These three leave out what the operation would not change: else a call that is repeated comes upon it again.
Statement match_unasked = {MATCHING "AND (j.status <> 'processing' OR j.cancel_requested_at IS NULL) " FIRST_UNHELD,
                           {TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, INT8OID},
                           Planning::Free};
// $8: when they shall run, $9: now.
Statement match_at_other_time = {
    MATCHING "AND (j.run_at <> $8 OR (j.status = 'pending') <> ($8 <= $9)) " FIRST_UNHELD,
    {TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
    Planning::Free};
Statement match_with_free_key = {
    MATCHING "AND " KEY_IS_FREE("$8") " AND ($9 IS NULL OR coalesce(j.dead_from, j.queue) = ANY ($9)) " FIRST_UNHELD,
    {TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, INT8OID, TIMESTAMPTZOID, TEXTARRAYOID},
    Planning::Free};

Statement get_status = {"SELECT j.status::text FROM jobq.jobs j WHERE j.id = $1", {INT8OID}};

Statement get_job = {
    R"(SELECT j.id, j.queue, j.kind, j.payload, j.priority::int4, j.status, j.run_at, j.attempts, j.max_attempts,
              j.worker_id, j.started_at, j.last_heartbeat, 
              coalesce(j.lease_timeout, CASE WHEN j.started_at IS NOT NULL THEN interval '60 seconds' END,
                       j.heartbeat_timeout),
              j.created_at, j.finished_at, j.result, j.error, j.progress, j.version, j.requires,
              j.cancel_requested_at, j.metadata
       FROM jobq.jobs j WHERE j.id = $1)",
    {INT8OID}};

Statement get_result = {"SELECT j.result FROM jobq.jobs j WHERE j.id = $1 AND j.status = 'completed'", {INT8OID}};

// Each part has a rank: what comes first where two happened at the same instant. An attempt that is in jobq.attempts is
// told from there, the latest one from the job unless it is there already. Of a cancelled job the error is the reason
// when nobody asked for it and it is not that of an earlier attempt. Only a job that waits for its time has yet
// to come due.
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
                     WHERE j.finished_at IS NOT NULL AND j.status IN ('completed', 'failed', 'cancelled')
                     UNION ALL
                     SELECT j.finished_at, 6, 'dead letter', NULL, NULL, j.queue
                     WHERE j.finished_at IS NOT NULL AND j.dead_from IS NOT NULL
                     UNION ALL
                     SELECT j.run_at, 7, 'due', NULL, NULL, NULL WHERE j.status = 'scheduled') e
       WHERE j.id = $1
       ORDER BY e.at, e.rank, e.attempt)",
    {INT8OID}};

Rows cancel_jobs(Datum ids, TimestampTz now) {
    const Rows locked = run(lock_cancellable, Params().add(ids));
    const Rows changed = run(cancel, Params().add(ids_of(locked)).add(TimestampTzGetDatum(now)));
    auto *keyed = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (changed.size() + 1), MCXT_ALLOC_HUGE));
    auto *unkept = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (changed.size() + 1), MCXT_ALLOC_HUGE));
    int keyed_count = 0, unkept_count = 0;
    for (uint64 i = 0; i < changed.size(); i++) {
        if (status_at(changed[i], 2) == core::JobStatus::Processing) {
            // The worker works out when its grace ends: this session may have another setting.
            publish_lease_deadline_at_commit(DT_NOBEGIN);
            continue;
        }
        if (changed[i].bool_at(3)) keyed[keyed_count++] = changed[i].get(1);
        if (find_queue(changed[i].text_at(4))->keep_failed == 0) unkept[unkept_count++] = changed[i].get(1);
    }
    keep_keys_of(keyed, keyed_count, now);
    count_changed(locked, changed);
    delete_jobs_and_attempts(unkept, unkept_count);
    return changed;
}

Rows reschedule_jobs(Datum ids, TimestampTz run_at, TimestampTz now) {
    if (run_at > now) publish_due_at_commit(run_at);
    const Rows locked = run(lock_waiting, Params().add(ids));
    const Rows changed =
        run(reschedule, Params().add(ids_of(locked)).add(TimestampTzGetDatum(now)).add(TimestampTzGetDatum(run_at)));
    publish_ready_rows(changed, 3);
    return count_changed(locked, changed);
}

Rows delete_them(Datum ids) {
    const Rows locked = run(lock_removable, Params().add(ids));
    require_trusted_followers();
    const Rows gone = run(remove, Params().add(ids_of(locked)));
    count_deleted_rows(gone, 3);
    keep_deleted_rows(gone, 1, 2);
    for (uint64 i = 0; i < gone.size(); i++) {
        publish_finished_at_commit(gone[i].int64_at(1));
        if (!gone[i].is_null(5)) publish_group_free(gone[i].int64_at(5));
    }
    return gone;
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
    switch (operation) {
        case Operation::Cancel:
            return cancel_jobs(ids, now);
        case Operation::Retry:
            return retry_jobs(ids, now);
        case Operation::Reschedule:
            return reschedule_jobs(ids, run_at, now);
        case Operation::Delete:
            break;
    }
    return delete_them(ids);
}

int64 operate_on_many(Operation operation, Datum ids, TimestampTz run_at, TimestampTz now) {
    if (operation == Operation::Retry) return retry_those_with_free_keys(ids, now);
    return static_cast<int64>(operate(operation, ids, run_at, now).size());
}

Rows lock_matching(const JobFilter &filter, Operation operation, TimestampTz run_at, TimestampTz now) {
    Datum names[core::kJobStatusCount];
    int count = 0;
    for (int i = 0; i < core::kJobStatusCount; i++)
        if (filter.statuses[i])
            names[count++] = CStringGetTextDatum(core::status_name(static_cast<core::JobStatus>(i)));
    Params params;
    params.add(PointerGetDatum(filter.queue))
        .add_if(filter.kind != nullptr, PointerGetDatum(filter.kind))
        .add(array_of(names, count, TEXTOID))
        .add_if(filter.error_like != nullptr, PointerGetDatum(filter.error_like))
        .add_if(filter.has_created_before, TimestampTzGetDatum(filter.created_before))
        .add_if(filter.has_metadata, filter.metadata)
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

bool current_status(int64 job_id, core::JobStatus *status) {
    const Rows rows = run(get_status, Params().add(Int64GetDatum(job_id)));
    return rows.size() == 1 && core::parse_status(TextDatumGetCString(rows[0].get(1)), status);
}

bool has_finished(int64 job_id) {
    core::JobStatus status;
    return !current_status(job_id, &status) || core::is_finished(status);
}

Rows read_result(int64 job_id) { return read(get_result, Params().add(Int64GetDatum(job_id))); }

Rows read_job(int64 job_id) { return read(get_job, Params().add(Int64GetDatum(job_id))); }

Rows read_job_log(int64 job_id) { return read(get_log, Params().add(Int64GetDatum(job_id))); }

}  // namespace jobq
