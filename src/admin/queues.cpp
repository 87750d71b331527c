// See queues.h.
#include "compat/pg.h"

#include "compat/args.h"

#include "admin/queues.h"
#include "finish/ending.h"
#include "lanes/lanes.h"
#include "log/transaction_log.h"
#include "queues/queue_settings.h"
#include "steps/signals.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

// Statements that create or change a row of settings. Each setting has two parameters: whether the setting is given,
// and its new value. The SQL texts are built when a statement is first used.
Statement create = {nullptr, {TEXTOID}, Planning::Free};
Statement alter = {nullptr, {TEXTOID}, Planning::Free};
static_assert(1 + 2 * core::kQueueSettings < kMaxParameters, "a statement has room for the parameters of all settings");

int given_parameter(int setting) { return 2 + 2 * setting; }
int value_parameter(int setting) { return 3 + 2 * setting; }

void make_statements() {
    if (alter.sql != nullptr) return;
    StringInfoData insert, update;
    initStringInfo(&insert);
    initStringInfo(&update);
    appendStringInfoString(&insert, "INSERT INTO jobq.queue_settings AS s (queue" JOBQ_SETTING_COLUMNS ") VALUES ($1");
    for (int i = 0; i < core::kQueueSettings; i++) {
        const core::QueueSetting &setting = core::kQueueSettingTable[i];
        for (Statement *statement : {&create, &alter}) {
            statement->types[given_parameter(i) - 1] = BOOLOID;
            statement->types[value_parameter(i) - 1] = setting_type(setting);
        }
        appendStringInfo(&insert, ", $%d", value_parameter(i));
        appendStringInfo(&update, "%s%s = CASE WHEN $%d THEN excluded.%s ELSE s.%s END", i == 0 ? "" : ", ",
                         setting.name, given_parameter(i), setting.name, setting.name);
    }
    appendStringInfoString(&insert, ") ON CONFLICT (queue) DO ");
    create.sql = MemoryContextStrdup(TopMemoryContext, psprintf("%sNOTHING", insert.data));
    alter.sql = MemoryContextStrdup(TopMemoryContext, psprintf("%sUPDATE SET %s", insert.data, update.data));
}

Statement find_unkept_letters = {
    R"(SELECT d.queue FROM jobq.queue_settings s JOIN jobq.queue_settings d ON d.queue = s.dead_letter_queue
       WHERE (s.queue = $1 OR d.queue = $1) AND d.keep_failed = interval '0' LIMIT 1)",
    {TEXTOID},
    Planning::Free};

Statement pause = {
    R"(INSERT INTO jobq.queue_settings AS s (queue, paused) VALUES ($1, true)
       ON CONFLICT (queue) DO UPDATE SET paused = true WHERE NOT s.paused)",
    {TEXTOID},
    Planning::Free};

Statement resume = {
    "UPDATE jobq.queue_settings s SET paused = false WHERE s.queue = $1 AND s.paused", {TEXTOID}, Planning::Free};

// Locks the jobs of a queue in the order of their ids. All sessions lock jobs in this order to avoid deadlocks. Locking
// needs a separate statement, because the DELETE could lock the jobs in a different order.
Statement lock_jobs = {
    R"(SELECT j.id, j.status > 'processing', j.status = 'failed' AND j.dead_from IS NOT NULL
       FROM jobq.jobs j
       WHERE j.queue = $1 ORDER BY j.id FOR UPDATE)",
    {TEXTOID},
    Planning::Free};

// Deletes the kept keys, lanes, limits, and settings of a queue.
Statement forget = {
    R"(WITH keys AS (DELETE FROM jobq.kept_keys k WHERE k.queue = $1 RETURNING 1),
            lanes AS (DELETE FROM jobq.lane_directory d WHERE d.queue = $1 RETURNING 1),
            limits AS (DELETE FROM jobq.limit_settings l WHERE l.queue = $1 RETURNING 1),
            settings AS (DELETE FROM jobq.queue_settings s WHERE s.queue = $1 RETURNING 1)
       SELECT EXISTS (SELECT FROM lanes) OR EXISTS (SELECT FROM settings) OR EXISTS (SELECT FROM keys)
              OR EXISTS (SELECT FROM limits))",
    {TEXTOID},
    Planning::Free};

// Locks the jobs before they are deleted. Locking needs a separate statement, because the locking statement might wait
// for other sessions, and the DELETE must see the attempts that those sessions recorded in the meantime.
Statement lock_purged = {
    R"(SELECT array_agg(l.id)
       FROM (SELECT j.id FROM jobq.jobs j
             WHERE j.queue = $1 AND j.status::text = ANY ($2)
             ORDER BY j.id LIMIT $3 FOR UPDATE) l)",
    {TEXTOID, TEXTARRAYOID, INT8OID},
    Planning::Free};

Params settings_params(text *queue, const GivenSettings &settings) {
    Params params;
    params.add(PointerGetDatum(queue));
    for (int i = 0; i < core::kQueueSettings; i++) {
        const bool given = settings.given[i];
        params.add(BoolGetDatum(given));
        params.add_if(given && !takes_away(core::kQueueSettingTable[i], settings.values[i]), settings.values[i]);
    }
    return params;
}

// Deletes locked jobs. Returns how many were deleted.
int64 delete_locked(Datum ids) {
    const Elements locked = elements_of(DatumGetArrayTypeP(ids), INT8OID, "ids", PG_INT32_MAX, NullElements::Refused);
    return delete_jobs(locked.values, locked.count);
}

}  // namespace

bool create_queue(text *queue, const GivenSettings &settings) {
    make_statements();
    run(create, settings_params(queue, settings));
    return affected() == 1;
}

void alter_queue(text *queue, const GivenSettings &settings) {
    make_statements();
    run(alter, settings_params(queue, settings));
}

Rows unkept_dead_letters(text *queue) {
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    const Rows rows = read(find_unkept_letters, Params().add(PointerGetDatum(queue)), snapshot);
    UnregisterSnapshot(snapshot);
    return rows;
}

bool set_paused(text *queue, bool paused) {
    run(paused ? pause : resume, Params().add(PointerGetDatum(queue)));
    return affected() == 1;
}

Rows lock_queue(text *queue) { return run(lock_jobs, Params().add(PointerGetDatum(queue))); }

bool forget_queue(text *queue, Datum ids) {
    const int64 deleted = delete_locked(ids);
    const Rows others = run(forget, Params().add(PointerGetDatum(queue)));
    const bool any_signal = delete_signals_of_queue(queue);
    invalidate_lanes();
    log_queue_dropped(view(queue));
    return others[0].bool_at(1) || deleted > 0 || any_signal;
}

int64 purge_queue(text *queue, Datum statuses, int64 max_jobs) {
    const Rows locked =
        run(lock_purged, Params().add(PointerGetDatum(queue)).add(statuses).add(Int64GetDatum(max_jobs)));
    if (locked[0].is_null(1)) return 0;
    return delete_locked(locked[0].get(1));
}

}  // namespace jobq
