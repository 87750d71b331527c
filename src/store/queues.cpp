// See queues.h.
#include "pg/pg.h"

#include "pg/args.h"

#include "shared/publish.h"
#include "shared/unblock.h"
#include "store/dependencies.h"
#include "store/lanes.h"
#include "store/queues.h"
#include "store/rows.h"

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

// Of the group by status.
#define COMPLETED_IDS "CASE WHEN g.status = 'completed' THEN array_agg(g.id) END"

// Rows are locked in the order of their ids, as everywhere, before a DELETE takes them in its own.
Statement lock_jobs = {
    R"(SELECT j.id, j.status IN ('completed', 'failed', 'cancelled'), j.status = 'failed' AND j.dead_from IS NOT NULL
       FROM jobq.jobs j
       WHERE j.queue = $1 ORDER BY j.id FOR UPDATE)",
    {TEXTOID},
    Planning::Free};

Statement forget = {
    R"(WITH gone AS (DELETE FROM jobq.jobs j WHERE j.id = ANY ($2) RETURNING j.id, j.status, j.result),
            history AS (DELETE FROM jobq.attempts a USING gone g WHERE a.job_id = g.id))" FORGET_DEPENDENCIES R"(,
            keys AS (DELETE FROM jobq.kept_keys k WHERE k.queue = $1 RETURNING 1),
            lanes AS (DELETE FROM jobq.lane_directory d WHERE d.queue = $1 RETURNING 1),
            limits AS (DELETE FROM jobq.limit_settings l WHERE l.queue = $1 RETURNING 1),
            settings AS (DELETE FROM jobq.queue_settings s WHERE s.queue = $1 RETURNING 1)
       SELECT n.status::text, n.jobs,
              EXISTS (SELECT FROM lanes) OR EXISTS (SELECT FROM settings) OR EXISTS (SELECT FROM keys)
                  OR EXISTS (SELECT FROM limits),
              n.ids
       FROM (SELECT 1) one LEFT JOIN (SELECT g.status, count(*) AS jobs, )" COMPLETED_IDS R"( AS ids
                                      FROM gone g GROUP BY g.status) n ON true)",
    {TEXTOID, INT8ARRAYOID},
    Planning::Free};

// First, and apart: the statement that deletes must see the attempts of whoever held a row until now.
Statement lock_purged = {
    R"(SELECT array_agg(l.id)
       FROM (SELECT j.id FROM jobq.jobs j
             WHERE j.queue = $1 AND j.status::text = ANY ($2) AND j.status <> 'processing'
             ORDER BY j.id FOR UPDATE) l)",
    {TEXTOID, TEXTARRAYOID},
    Planning::Free};

Statement purge = {
    R"(WITH gone AS (DELETE FROM jobq.jobs j WHERE j.id = ANY ($1) RETURNING j.id, j.status, j.result),
            history AS (DELETE FROM jobq.attempts a USING gone g WHERE a.job_id = g.id))" FORGET_DEPENDENCIES R"(
       SELECT g.status::text, count(*), NULL, )" COMPLETED_IDS R"( FROM gone g GROUP BY g.status)",
    {INT8ARRAYOID},
    Planning::Free};

Params settings_params(text *queue, const QueueSettings &settings) {
    Params params;
    params.add(PointerGetDatum(queue));
    for (int i = 0; i < kQueueSettings; i++) params.add_if(settings.given[i], settings.values[i]);
    return params;
}

// Counts and tells of the deleted jobs of rows (status, how many, ..., the ids of completed ones), where the status may
// be NULL: none. Returns how many.
int64 count_deleted(text *queue, const Rows &gone) {
    int64 deleted = 0;
    for (uint64 i = 0; i < gone.size(); i++) {
        if (gone[i].is_null(1)) continue;
        const core::JobStatus status = status_at(gone[i], 1);
        if (!core::is_finished(status)) publish_unblocked_anywhere_at_commit(Blocker::Group);
        count_deletes_at_commit(view(queue), status, gone[i].int64_at(2));
        deleted += gone[i].int64_at(2);
        if (gone[i].is_null(4)) continue;
        const Elements ids =
            elements_of(DatumGetArrayTypeP(gone[i].get(4)), INT8OID, "ids", PG_INT32_MAX, NullElements::Refused);
        static_assert(sizeof(Datum) == sizeof(int64) && FLOAT8PASSBYVAL, "a bigint is a Datum");
        keep_deleted(reinterpret_cast<const int64 *>(ids.values), ids.count);
    }
    if (deleted > 0) publish_finished_anywhere_at_commit();
    return deleted;
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
    const Rows gone = run(forget, Params().add(PointerGetDatum(queue)).add(ids));
    invalidate_lanes();
    return count_deleted(queue, gone) > 0 || gone[0].bool_at(3);
}

int64 purge_queue(text *queue, Datum statuses) {
    const Rows locked = run(lock_purged, Params().add(PointerGetDatum(queue)).add(statuses));
    if (locked[0].is_null(1)) return 0;
    return count_deleted(queue, run(purge, Params().add(locked[0].get(1))));
}

}  // namespace jobq
