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

namespace jobq {

namespace {

// Selects the jobs in scope that the operation can change. The statement that waits for the row lock checks the scope,
// because another session may have moved a dead letter to another queue before this one gets the lock.
#define APPLICABLE(in_scope) \
    "FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status::text = ANY ($2) AND " in_scope " ORDER BY j.id "

Statement lock_to_change = {"SELECT " LOCKED_COLUMNS " " APPLICABLE(IN_SCOPE("$3")) "FOR NO KEY UPDATE",
                            {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};
Statement lock_to_retry = {"SELECT " LOCKED_COLUMNS " " APPLICABLE(HOME_IN_SCOPE("$3")) "FOR NO KEY UPDATE",
                           {INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID}};

// Locks the jobs. This is a separate statement before the DELETE, because the DELETE must see attempts that were
// recorded by the sessions for which the lock has waited.
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
// The next three statements leave out jobs that the operation would not change, because otherwise every repeated call
// with max_jobs would select the same jobs again.
Statement match_unasked = {MATCHING "AND (j.status <> 'processing' OR j.cancel_requested_at IS NULL) " FIRST_UNHELD,
                           {MATCHING_TYPES},
                           Planning::Free};
// $11 is the new run_at; $12 is the current time.
Statement match_at_other_time = {MATCHING
                                 "AND (j.run_at <> $11 OR (j.status = 'pending') <> ($11 <= $12)) " FIRST_UNHELD,
                                 {MATCHING_TYPES, TIMESTAMPTZOID, TIMESTAMPTZOID},
                                 Planning::Free};
Statement match_with_free_key = {MATCHING "AND " KEY_IS_FREE("$11") " AND " HOME_IN_SCOPE("$12") " " FIRST_UNHELD,
                                 {MATCHING_TYPES, TIMESTAMPTZOID, TEXTARRAYOID},
                                 Planning::Free};

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

}  // namespace jobq
