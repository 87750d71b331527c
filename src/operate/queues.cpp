// See queues.h.
#include "compat/pg.h"

#include "compat/args.h"

#include "ending/ending.h"
#include "lanes/lanes.h"
#include "operate/queues.h"

namespace jobq {

namespace {

// An empty dead_letter_queue, a max_depth or max_runtime of zero take away what there was.
#define SETTING_TYPES                                                                                             \
    TEXTOID, INT4OID, INTERVALOID, INTERVALOID, INTERVALOID, INT4OID, INTERVALOID, INTERVALOID, INT4OID, TEXTOID, \
        TEXTOID, INTERVALOID, TEXTOID, INTERVALOID, BOOLOID
#define INSERT_SETTINGS                                                                                           \
    "INSERT INTO jobq.queue_settings AS s (queue, max_attempts, backoff_base, backoff_max, heartbeat_timeout, "   \
    "max_lost, keep_completed, keep_failed, max_depth, on_full, dead_letter_queue, max_runtime, on_max_runtime, " \
    "priority_ageing, round_robin) "                                                                              \
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, 0), $10, nullif($11, ''), "                               \
    "nullif($12, interval '0'), $13, $14, $15) "

Statement create = {INSERT_SETTINGS "ON CONFLICT (queue) DO NOTHING", {SETTING_TYPES}, Planning::Free};

Statement alter = {INSERT_SETTINGS R"(ON CONFLICT (queue) DO UPDATE SET
           max_attempts = coalesce(excluded.max_attempts, s.max_attempts),
           backoff_base = coalesce(excluded.backoff_base, s.backoff_base),
           backoff_max = coalesce(excluded.backoff_max, s.backoff_max),
           heartbeat_timeout = coalesce(excluded.heartbeat_timeout, s.heartbeat_timeout),
           max_lost = coalesce(excluded.max_lost, s.max_lost),
           keep_completed = coalesce(excluded.keep_completed, s.keep_completed),
           keep_failed = coalesce(excluded.keep_failed, s.keep_failed),
           max_depth = CASE WHEN $9 IS NULL THEN s.max_depth ELSE excluded.max_depth END,
           on_full = coalesce(excluded.on_full, s.on_full),
           dead_letter_queue = CASE WHEN $11 IS NULL THEN s.dead_letter_queue ELSE excluded.dead_letter_queue END,
           max_runtime = CASE WHEN $12 IS NULL THEN s.max_runtime ELSE excluded.max_runtime END,
           on_max_runtime = coalesce(excluded.on_max_runtime, s.on_max_runtime),
           priority_ageing = coalesce(excluded.priority_ageing, s.priority_ageing),
           round_robin = coalesce(excluded.round_robin, s.round_robin))",
                   {SETTING_TYPES},
                   Planning::Free};

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

// Rows are locked in the order of their ids, as everywhere, before a DELETE takes them in its own.
Statement lock_jobs = {
    R"(SELECT j.id, j.status IN ('completed', 'failed', 'cancelled'), j.status = 'failed' AND j.dead_from IS NOT NULL
       FROM jobq.jobs j
       WHERE j.queue = $1 ORDER BY j.id FOR UPDATE)",
    {TEXTOID},
    Planning::Free};

// What else there is of a queue.
Statement forget = {
    R"(WITH keys AS (DELETE FROM jobq.kept_keys k WHERE k.queue = $1 RETURNING 1),
            lanes AS (DELETE FROM jobq.lane_directory d WHERE d.queue = $1 RETURNING 1),
            limits AS (DELETE FROM jobq.limit_settings l WHERE l.queue = $1 RETURNING 1),
            settings AS (DELETE FROM jobq.queue_settings s WHERE s.queue = $1 RETURNING 1)
       SELECT EXISTS (SELECT FROM lanes) OR EXISTS (SELECT FROM settings) OR EXISTS (SELECT FROM keys)
              OR EXISTS (SELECT FROM limits))",
    {TEXTOID},
    Planning::Free};

// First, and apart: the statement that deletes must see the attempts of whoever held a row until now.
Statement lock_purged = {
    R"(SELECT array_agg(l.id)
       FROM (SELECT j.id FROM jobq.jobs j
             WHERE j.queue = $1 AND j.status::text = ANY ($2) AND j.status <> 'processing'
             ORDER BY j.id FOR UPDATE) l)",
    {TEXTOID, TEXTARRAYOID},
    Planning::Free};

Params settings_params(text *queue, const QueueSettings &settings) {
    Params params;
    params.add(PointerGetDatum(queue));
    for (int i = 0; i < kQueueSettings; i++) params.add_if(settings.given[i], settings.values[i]);
    return params;
}

// Of jobs that are locked. Returns how many were deleted.
int64 delete_locked(Datum ids) {
    const Elements locked = elements_of(DatumGetArrayTypeP(ids), INT8OID, "ids", PG_INT32_MAX, NullElements::Refused);
    return delete_jobs(locked.values, locked.count);
}

}  // namespace

bool create_queue(text *queue, const QueueSettings &settings) {
    run(create, settings_params(queue, settings));
    return affected() == 1;
}

void alter_queue(text *queue, const QueueSettings &settings) { run(alter, settings_params(queue, settings)); }

Rows unkept_dead_letters(text *queue) { return run(find_unkept_letters, Params().add(PointerGetDatum(queue))); }

bool set_paused(text *queue, bool paused) {
    run(paused ? pause : resume, Params().add(PointerGetDatum(queue)));
    return affected() == 1;
}

Rows lock_queue(text *queue) { return run(lock_jobs, Params().add(PointerGetDatum(queue))); }

bool forget_queue(text *queue, Datum ids) {
    const int64 deleted = delete_locked(ids);
    const Rows others = run(forget, Params().add(PointerGetDatum(queue)));
    invalidate_lanes();
    return others[0].bool_at(1) || deleted > 0;
}

int64 purge_queue(text *queue, Datum statuses) {
    const Rows locked = run(lock_purged, Params().add(PointerGetDatum(queue)).add(statuses));
    if (locked[0].is_null(1)) return 0;
    return delete_locked(locked[0].get(1));
}

}  // namespace jobq
