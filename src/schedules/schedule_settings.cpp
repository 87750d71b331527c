// See schedule_settings.h.
#include "compat/pg.h"

#include "compat/own_locks.h"
#include "core/stable_hash.h"
#include "log/transaction_log.h"
#include "schedules/overlap.h"
#include "schedules/schedule_settings.h"

namespace jobq {

namespace {

// Locks a schedule if it is in scope ($2). A role that is not allowed to change the schedule must neither wait for the
// schedule's lock nor prevent the schedule from firing.
Statement lock_one = {"SELECT " SCHEDULE_COLUMNS R"( FROM jobq.schedule_settings s
       WHERE s.name = $1 AND ($2 IS NULL OR s.queue = ANY ($2)) FOR UPDATE)",
                      {TEXTOID, TEXTARRAYOID},
                      Planning::Free};
Statement find_foreign = {"SELECT 1 FROM jobq.schedule_settings s WHERE s.name = $1 AND s.queue <> ALL ($2)",
                          {TEXTOID, TEXTARRAYOID},
                          Planning::Free};

#define SPEC_COLUMNS                                                                                            \
    "cron, timezone, queue, kind, payload, options, missed, overlap, max_missed, deadline, jitter, starts_at, " \
    "ends_at, paused, source"
#define SPEC_PARAMETERS "$2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16"
#define SPEC_TYPES                                                                                           \
    TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID, TEXTOID, TEXTOID, INT4OID, INTERVALOID, \
        INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID, BOOLOID, TEXTOID

Statement insert = {"INSERT INTO jobq.schedule_settings AS s (name, " SPEC_COLUMNS
                    ", created_at, next_run, _due_at) VALUES ($1, " SPEC_PARAMETERS
                    ", $17, $18, $18) ON CONFLICT (name) DO NOTHING",
                    {SPEC_TYPES, TIMESTAMPTZOID, TIMESTAMPTZOID},
                    Planning::Free};

// Updates a locked row. Clears the error and the number of failures, because the old definition might have caused them.
// As a result, the schedule is retried immediately. Compares values as text, because an interval of one month equals an
// interval of 30 days. Also updates an unchanged row that has a next run but no _due_at, because such a schedule would
// never be fired.
Statement update = {"UPDATE jobq.schedule_settings s SET (" SPEC_COLUMNS
                    ", next_run, _due_at, error, failures, _unfinished) = (" SPEC_PARAMETERS
                    ", $17, $17, NULL, 0, $18) WHERE s.name = $1 AND (ROW(" SPEC_PARAMETERS
                    ")::text "
                    "IS DISTINCT FROM ROW(" SPEC_COLUMNS ")::text OR s._due_at IS NULL AND $17 IS NOT NULL)",
                    {SPEC_TYPES, TIMESTAMPTZOID, INT8ARRAYOID},
                    Planning::Free};

Statement remove = {"DELETE FROM jobq.schedule_settings s WHERE s.name = $1", {TEXTOID}, Planning::Free};

Statement pause = {
    R"(UPDATE jobq.schedule_settings s SET paused = true, next_run = NULL, _due_at = NULL, error = NULL, failures = 0
       WHERE s.name = $1)",
    {TEXTOID},
    Planning::Free};
Statement resume = {
    R"(UPDATE jobq.schedule_settings s SET paused = false, next_run = $2, _due_at = $2, error = NULL, failures = 0
       WHERE s.name = $1)",
    {TEXTOID, TIMESTAMPTZOID},
    Planning::Free};

// Locks, in the order of their names, all rows that a call for a set of schedules changes or removes.
// wait_for_other_sets() does not serialize roles with different queues, so without a fixed order, two calls could lock
// the same rows in opposite orders.
Statement lock_rows_of_set = {
    R"(SELECT 1 FROM jobq.schedule_settings s
       WHERE (s.name = ANY ($2) OR $4 AND s.source = $1) AND ($3 IS NULL OR s.queue = ANY ($3))
       ORDER BY s.name FOR UPDATE)",
    {TEXTOID, TEXTARRAYOID, TEXTARRAYOID, BOOLOID}};

// Deletes the schedules of the source that the new set does not contain. Locks the rows in the same order as
// lock_rows_of_set.
Statement remove_others = {
    R"(WITH others AS MATERIALIZED (
           SELECT s.name FROM jobq.schedule_settings s
           WHERE s.name = ANY (ARRAY (SELECT o.name FROM jobq.schedule_settings o
                                      WHERE o.source = $1 AND ($3 IS NULL OR o.queue = ANY ($3))
                                      EXCEPT SELECT unnest($2)))
             AND s.source = $1 AND ($3 IS NULL OR s.queue = ANY ($3))
           ORDER BY s.name FOR UPDATE),
       gone AS (DELETE FROM jobq.schedule_settings s USING others o WHERE s.name = o.name RETURNING s.name)
       SELECT g.name FROM gone g ORDER BY g.name)",
    {TEXTOID, TEXTARRAYOID, TEXTARRAYOID}};

Statement lock_of_queue = {
    "SELECT 1 FROM jobq.schedule_settings s WHERE s.queue = $1 ORDER BY s.name FOR UPDATE", {TEXTOID}, Planning::Free};
Statement remove_of_queue = {"DELETE FROM jobq.schedule_settings s WHERE s.queue = $1", {TEXTOID}, Planning::Free};

Params params_of(const ScheduleSpec &spec, bool paused) {
    return Params()
        .add(PointerGetDatum(spec.name))
        .add(PointerGetDatum(spec.cron))
        .add(PointerGetDatum(spec.timezone))
        .add(PointerGetDatum(spec.queue))
        .add(PointerGetDatum(spec.kind))
        .add(spec.payload)
        .add(spec.options)
        .add(PointerGetDatum(spec.missed))
        .add(PointerGetDatum(spec.overlap))
        .add(Int32GetDatum(spec.max_missed))
        .add_if(spec.deadline != nullptr, IntervalPGetDatum(spec.deadline))
        .add_if(spec.jitter != nullptr, IntervalPGetDatum(spec.jitter))
        .add_if(spec.starts_at.has_value(), TimestampTzGetDatum(spec.starts_at.value_or(0)))
        .add_if(spec.ends_at.has_value(), TimestampTzGetDatum(spec.ends_at.value_or(0)))
        .add(BoolGetDatum(paused))
        .add(PointerGetDatum(spec.source));
}

bool same_times(const ScheduleSpec &a, const ScheduleSpec &b) {
    return view(a.cron) == view(b.cron) && view(a.timezone) == view(b.timezone) && a.starts_at == b.starts_at &&
           a.ends_at == b.ends_at;
}

void schedule_round(const core::OptInt64 &next_run) {
    if (next_run) log_due_schedule(*next_run);
}

bool is_foreign(const text *name, const QueueScope *scope) {
    if (scope == nullptr) return false;
    return run(find_foreign, Params().add(PointerGetDatum(name)).add(scope->array)).size() > 0;
}

[[noreturn]] void refuse_foreign(const text *name) {
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("permission denied for schedule \"%s\"", text_to_cstring(name)),
                    errdetail("The schedule belongs to a queue that the role was not granted."),
                    errhint("Choose another name for your schedule.")));
    pg_unreachable();
}

Datum unfinished_of(const Schedule &before, const ScheduleSpec &spec, bool *any) {
    *any = false;
    if (overlap_of(spec) != core::Overlap::Replace) return Datum(0);
    if (overlap_of(before.spec) == core::Overlap::Replace) {
        *any = before.unfinished != nullptr;
        return PointerGetDatum(before.unfinished);
    }
    if (!before.last_job) return Datum(0);
    const JobIds ids = find_unfinished(before.spec);
    *any = ids.count > 0;
    return array_of(ids.items, ids.count, INT8OID);
}

Scheduled change_schedule(const Schedule &before, const ScheduleSpec &spec, TimestampTz now) {
    const bool was_paused = *before.spec.paused, paused = spec.paused.value_or(was_paused);
    core::OptInt64 next_run = before.next_run;
    if (paused)
        next_run = {};
    else if (was_paused || !before.next_run || !same_times(before.spec, spec))
        next_run = next_run_from(timing_of(spec, before.created_at), before.last_run, now);
    bool any_unfinished;
    const Datum unfinished = unfinished_of(before, spec, &any_unfinished);
    run(update, params_of(spec, paused)
                    .add_if(next_run.has_value(), TimestampTzGetDatum(next_run.value_or(0)))
                    .add_if(any_unfinished, unfinished));
    if (affected() == 0) return {Change::Unchanged, before.next_run};
    schedule_round(next_run);
    return {Change::Changed, next_run};
}

}  // namespace

Scheduled put_schedule(const ScheduleSpec &spec, const QueueScope *scope, TimestampTz now) {
    constexpr int kMostTries = 100;
    for (int tries = 0; tries < kMostTries; tries++) {
        Schedule before;
        if (lock_schedule(spec.name, scope, &before)) return change_schedule(before, spec, now);
        if (is_foreign(spec.name, scope)) refuse_foreign(spec.name);
        const bool paused = spec.paused.value_or(false);
        const core::OptInt64 next_run = paused ? core::OptInt64() : next_run_from(timing_of(spec, now), {}, now);
        run(insert, params_of(spec, paused)
                        .add(TimestampTzGetDatum(now))
                        .add_if(next_run.has_value(), TimestampTzGetDatum(next_run.value_or(0))));
        if (affected() == 0) continue;  // another session has just created the schedule
        schedule_round(next_run);
        return {Change::Created, next_run};
    }
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                    errmsg("schedule \"%s\" was concurrently created and dropped", text_to_cstring(spec.name)),
                    errhint("Retry the call.")));
    pg_unreachable();
}

bool lock_schedule(const text *name, const QueueScope *scope, Schedule *schedule) {
    const Rows found = run(lock_one, Params().add(PointerGetDatum(name)).add_if(scope != nullptr, scope_array(scope)));
    if (found.size() == 0) return false;
    *schedule = schedule_of(found[0]);
    return true;
}

void remove_schedule(const text *name) { run(remove, Params().add(PointerGetDatum(name))); }

void pause_schedule(const text *name) { run(pause, Params().add(PointerGetDatum(name))); }

void resume_schedule(const Schedule &schedule, TimestampTz now) {
    const core::OptInt64 next_run =
        next_run_from(timing_of(schedule.spec, schedule.created_at), schedule.last_run, now);
    run(resume, Params()
                    .add(PointerGetDatum(schedule.spec.name))
                    .add_if(next_run.has_value(), TimestampTzGetDatum(next_run.value_or(0))));
    schedule_round(next_run);
}

bool lock_schedules_of(const text *queue) {
    return run(lock_of_queue, Params().add(PointerGetDatum(queue))).size() > 0;
}

int64 remove_schedules_of(const text *queue) {
    if (!lock_schedules_of(queue)) return 0;
    run(remove_of_queue, Params().add(PointerGetDatum(queue)));
    return affected();
}

void wait_for_other_sets(const QueueScope *scope) {
    core::StableHash queues;
    for (int i = 0; scope != nullptr && i < scope->count; i++) queues.add_part(scope->queues[i]);
    const LOCKTAG tag = own_lock(OwnLock::ScheduleSets, queues.value());
    LockAcquire(&tag, ExclusiveLock, false, false);
}

void lock_set(const text *source, Datum names, bool prune, const QueueScope *scope) {
    run(lock_rows_of_set, Params()
                              .add(PointerGetDatum(source))
                              .add(names)
                              .add_if(scope != nullptr, scope_array(scope))
                              .add(BoolGetDatum(prune)));
}

Rows remove_others_of(const text *source, Datum names, const QueueScope *scope) {
    return run(remove_others,
               Params().add(PointerGetDatum(source)).add(names).add_if(scope != nullptr, scope_array(scope)));
}

}  // namespace jobq
