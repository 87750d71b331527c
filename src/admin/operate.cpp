// See operate.h.
#include "compat/pg.h"

#include "admin/operate.h"
#include "admin/retry.h"
#include "compat/args.h"
#include "duties/dump_restore.h"
#include "finish/ending.h"
#include "job/change_job.h"
#include "log/rows.h"
#include "row/locked_jobs.h"
#include "row/status.h"

namespace jobq {

namespace {

// Selects the jobs in scope that the operation can change. The statement that locks the rows also checks the scope,
// because another session can move a dead letter to a different queue while the statement waits for a lock.
#define APPLICABLE(in_scope) \
    "FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status::text = ANY ($2) AND " in_scope " ORDER BY j.id "

Statement lock_to_change = {"SELECT " LOCKED_COLUMNS " " APPLICABLE(IN_SCOPE("$3")) "FOR NO KEY UPDATE",
                            {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};
// A failed job can be canceled if it is the head of a halted group.
Statement lock_to_cancel = {"SELECT " LOCKED_COLUMNS
                            " FROM jobq.jobs j WHERE j.id = ANY ($1) AND (j.status::text = ANY ($2) "
                            "OR j.status = 'failed' AND j._group_active IS NOT NULL) AND " IN_SCOPE("$3") " ORDER BY j.id "
                            "FOR NO KEY UPDATE",
                            {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};
Statement lock_to_retry = {"SELECT " LOCKED_COLUMNS " " APPLICABLE(HOME_IN_SCOPE("$3")) "FOR NO KEY UPDATE",
                           {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};

// Locks the jobs before they are deleted. Locking needs a separate statement, because the locking statement might wait
// for other sessions, and the DELETE must see the attempts that those sessions recorded in the meantime.
Statement lock_to_delete = {"SELECT j.id, j.status::text " APPLICABLE(IN_SCOPE("$3")) "FOR UPDATE",
                            {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};

#define MATCHING                                                                       \
    "SELECT j.id FROM jobq.jobs j "                                                    \
    "WHERE j.queue = $1 AND ($2 IS NULL OR j.kind = $2) "                              \
    "AND j.status::text = ANY ($3) AND ($4 IS NULL OR j.error LIKE $4) "               \
    "AND ($5 IS NULL OR j.created_at < $5) AND ($6 IS NULL OR j.metadata @> $6) "      \
    "AND ($7 IS NULL OR j.concurrency_key = $7) AND ($8 IS NULL OR j.group_key = $8) " \
    "AND ($9 IS NULL OR j.version = $9) AND ($10 IS NULL OR j.batch_id = $10) "
#define FIRST_UNHELD "ORDER BY j.id LIMIT $11 FOR NO KEY UPDATE SKIP LOCKED"
#define ANY_ONE "LIMIT least($11, 1)"
#define MATCHING_TYPES \
    TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, TEXTOID, TEXTOID, INT4OID, INT8OID, INT8OID

UnheldJobs match = {{MATCHING FIRST_UNHELD, {MATCHING_TYPES}, Planning::Free},
                    {MATCHING ANY_ONE, {MATCHING_TYPES}, Planning::Free}};
// The next three conditions exclude jobs that the operation would not change, because otherwise, repeated calls with
// max_jobs would always select the same jobs.
#define UNASKED MATCHING "AND (j.status <> 'processing' OR j.cancel_requested_at IS NULL) "
UnheldJobs match_unasked = {{UNASKED FIRST_UNHELD, {MATCHING_TYPES}, Planning::Free},
                            {UNASKED ANY_ONE, {MATCHING_TYPES}, Planning::Free}};
// $12 is the new run_at; $13 is the current time.
#define AT_OTHER_TIME MATCHING "AND (j.run_at <> $12 OR (j.status = 'pending') <> ($12 <= $13)) "
UnheldJobs match_at_other_time = {
    {AT_OTHER_TIME FIRST_UNHELD, {MATCHING_TYPES, TIMESTAMPTZOID, TIMESTAMPTZOID}, Planning::Free},
    {AT_OTHER_TIME ANY_ONE, {MATCHING_TYPES, TIMESTAMPTZOID, TIMESTAMPTZOID}, Planning::Free}};
#define WITH_FREE_KEY MATCHING "AND " KEY_IS_FREE("$12") " AND " HOME_IN_SCOPE("$13") " "
UnheldJobs match_with_free_key = {
    {WITH_FREE_KEY FIRST_UNHELD, {MATCHING_TYPES, TIMESTAMPTZOID, TEXTARRAYOID}, Planning::Free},
    {WITH_FREE_KEY ANY_ONE, {MATCHING_TYPES, TIMESTAMPTZOID, TEXTARRAYOID}, Planning::Free}};

// Returns the event of an operation that changes jobs instead of deleting them.
core::EventKind event_of(Operation operation) {
    return operation == Operation::Cancel  ? core::EventKind::Cancelled
           : operation == Operation::Retry ? core::EventKind::Retried
                                           : core::EventKind::Rescheduled;
}

Operated apply_event(const Rows &locked, const core::Event &event) {
    return apply_and_end(first_column(locked), static_cast<int>(locked.size()), event);
}

Datum applicable_statuses(Operation operation) {
    return names_of_statuses([&](core::JobStatus status) { return operation_applies(operation, status); });
}

Params choice(Operation operation, Datum ids, const QueueScope *scope) {
    return Params().add(ids).add(applicable_statuses(operation)).add_if(scope != nullptr, scope_array(scope));
}

Operated delete_them(Datum ids, const QueueScope *scope) {
    const Rows locked = run(lock_to_delete, choice(Operation::Delete, ids, scope));
    if (locked.size() == 0) return {0, core::JobStatus::Pending};
    const core::JobStatus status = status_at(locked[locked.size() - 1], 2);
    return {delete_jobs(first_column(locked), static_cast<int>(locked.size())), status};
}

}  // namespace

bool operation_applies(Operation operation, core::JobStatus status) {
    if (operation == Operation::Delete) return status != core::JobStatus::Processing;
    core::Life life = {};
    life.status = status;
    return core::applies(event_of(operation), life);
}

Rows lock_applicable(Operation operation, Datum ids, const QueueScope *scope) {
    Statement &lock = operation == Operation::Retry    ? lock_to_retry
                      : operation == Operation::Cancel ? lock_to_cancel
                                                       : lock_to_change;
    return run(lock, choice(operation, ids, scope));
}

Rows lock_unheld(UnheldJobs *jobs, const Params &params) {
    // A second duty might lock the same job shortly after the first.
    constexpr int kTries = 2;
    Rows rows = run(jobs->lock, params);
    for (int i = 0; i < kTries && rows.size() == 0 && run(jobs->find, params).size() > 0; i++) {
        wait_for_duties();
        rows = run(jobs->lock, params);
    }
    return rows;
}

Operated operate(Operation operation, Datum ids, const QueueScope *scope, TimestampTz run_at, TimestampTz now) {
    if (operation == Operation::Delete) return delete_them(ids, scope);
    return apply_event(lock_applicable(operation, ids, scope), {event_of(operation), now, run_at});
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
        .add_if(filter.batch_id.has_value(), Int64GetDatum(filter.batch_id.value_or(0)))
        .add(Int64GetDatum(filter.max_jobs));
    if (operation == Operation::Cancel) return lock_unheld(&match_unasked, params);
    if (operation == Operation::Delete) return lock_unheld(&match, params);
    if (operation == Operation::Reschedule)
        return lock_unheld(&match_at_other_time, params.add(TimestampTzGetDatum(run_at)).add(TimestampTzGetDatum(now)));
    params.add(TimestampTzGetDatum(now)).add_if(filter.scope != nullptr, scope_array(filter.scope));
    return lock_unheld(&match_with_free_key, params);
}

}  // namespace jobq
