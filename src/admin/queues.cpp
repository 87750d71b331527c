// See queues.h.
#include "compat/pg.h"

#include "compat/args.h"

#include "admin/queues.h"
#include "finish/ending.h"
#include "lanes/lanes.h"
#include "log/transaction_log.h"
#include "steps/signals.h"

namespace jobq {

namespace {

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

// Locks the named limits that include the queue. Locking needs a separate statement, because another transaction that
// drops another queue of the same limit might change the limit while this statement waits.
Statement lock_named_limits = {
    "SELECT FROM jobq.named_limit_settings n WHERE $1 = ANY (n.queues) ORDER BY n.name FOR UPDATE",
    {TEXTOID},
    Planning::Free};

// Deletes the kept keys, lanes, limits, and settings of a queue and of its kinds. Removes the queue from named limits,
// and deletes those that belong to no other queue.
Statement forget = {
    R"(WITH keys AS (DELETE FROM jobq.kept_keys k WHERE k.queue = $1 RETURNING 1),
            lanes AS (DELETE FROM jobq.lane_directory d WHERE d.queue = $1 RETURNING 1),
            limits AS (DELETE FROM jobq.limit_settings l WHERE l.queue = $1 RETURNING 1),
            left_limits AS (UPDATE jobq.named_limit_settings n SET queues = array_remove(n.queues, $1)
                            WHERE $1 = ANY (n.queues) AND array_remove(n.queues, $1) <> '{}' RETURNING 1),
            own_limits AS (DELETE FROM jobq.named_limit_settings n WHERE array_remove(n.queues, $1) = '{}' RETURNING 1),
            kinds AS (DELETE FROM jobq.kind_settings k WHERE k.queue = $1 RETURNING 1),
            settings AS (DELETE FROM jobq.queue_settings s WHERE s.queue = $1 RETURNING 1)
       SELECT EXISTS (SELECT FROM lanes) OR EXISTS (SELECT FROM settings) OR EXISTS (SELECT FROM keys)
              OR EXISTS (SELECT FROM limits) OR EXISTS (SELECT FROM left_limits) OR EXISTS (SELECT FROM own_limits)
              OR EXISTS (SELECT FROM kinds))",
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

// Deletes locked jobs. Returns how many were deleted.
int64 delete_locked(Datum ids) {
    const Elements locked = elements_of(DatumGetArrayTypeP(ids), INT8OID, "ids", PG_INT32_MAX, NullElements::Refused);
    return delete_jobs(locked.values, locked.count);
}

}  // namespace

bool set_paused(text *queue, bool paused) {
    run(paused ? pause : resume, Params().add(PointerGetDatum(queue)));
    return affected() == 1;
}

Rows lock_queue(text *queue) { return run(lock_jobs, Params().add(PointerGetDatum(queue))); }

bool forget_queue(text *queue, Datum ids) {
    const int64 deleted = delete_locked(ids);
    run(lock_named_limits, Params().add(PointerGetDatum(queue)));
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
