// See signals.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "steps/signals.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

Statement add_to_queue = {
    "INSERT INTO jobq.signals AS s (queue, event, payload) VALUES ($1, $2, $3) "
    "ON CONFLICT (queue, event) DO NOTHING RETURNING s.id",
    {TEXTOID, TEXTOID, JSONBOID}};
Statement add_to_job = {
    "INSERT INTO jobq.job_signals (job_id, event, payload) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    {INT8OID, TEXTOID, JSONBOID}};

Statement find = {
    R"(SELECT g.payload
       FROM (SELECT 1 AS rank, s.payload FROM jobq.job_signals s WHERE s.job_id = $1 AND s.event = $3 COLLATE "C"
             UNION ALL
             SELECT 2, s.payload FROM jobq.signals s WHERE s.queue = $2 COLLATE "C" AND s.event = $3 COLLATE "C") g
       ORDER BY g.rank LIMIT 1)",
    {INT8OID, TEXTOID, TEXTOID}};

Statement delete_of_queue = {R"(DELETE FROM jobq.signals s WHERE s.queue = $1 COLLATE "C")", {TEXTOID}, Planning::Free};
Statement delete_of_jobs = {"DELETE FROM jobq.job_signals s WHERE s.job_id = ANY ($1)", {INT8ARRAYOID}};
Statement delete_all = {"DELETE FROM jobq.job_signals", {}, Planning::Free};
Statement move = {"UPDATE jobq.job_signals s SET job_id = $2 WHERE s.job_id = $1", {INT8OID, INT8OID}};

Statement find_old = {
    R"(SELECT s.queue, s.event, s.sent_at FROM jobq.signals s WHERE s.sent_at < $1 AND s.sent_at > $2 ORDER BY s.sent_at LIMIT $3)",
    {TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID}};

// Deletes the given old signals, except signals that a job awaits. A signal that has unblocked a job is not deleted
// before the job's worker has read it.
Statement delete_old = {
    R"(WITH over AS MATERIALIZED (
           SELECT u.queue, u.event FROM unnest($1, $2) AS u(queue, event)
           WHERE NOT EXISTS (SELECT FROM jobq.steps s
                             WHERE s.event = u.event COLLATE "C" AND s._awaited = u.queue COLLATE "C"))
       DELETE FROM jobq.signals s
       WHERE s.ctid = ANY (ARRAY (SELECT o.ctid FROM over u,
                                       LATERAL (SELECT g.ctid FROM jobq.signals g
                                                WHERE g.queue = u.queue COLLATE "C" AND g.event = u.event COLLATE "C"
                                                  AND g.sent_at < $3 FOR UPDATE SKIP LOCKED) o)))",
    {TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID}};

// Selects the next jobs that have signals, and whether each job has been deleted. Signals of deleted jobs exist because
// a completion that deletes a job without steps leaves the job's signals in the table.
Statement find_next_jobs = {
    R"(SELECT u.job_id, NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.job_id]))
       FROM (SELECT s.job_id FROM jobq.job_signals s WHERE s.job_id > $1 ORDER BY s.job_id LIMIT $2) u
       ORDER BY u.job_id)",
    {INT8OID, INT8OID}};

Params addition(Datum to, text *event, bool has_payload, Datum payload) {
    return Params().add(to).add(PointerGetDatum(event)).add_if(has_payload, payload);
}

// Deletes signals to jobs that have been deleted. Each call checks the next part of the table. After the last part, the
// next call starts over with the first part.
void prune_job_signals(int batch) {
    static int64 behind = 0;
    if (!is_in_use("job_signals")) return;
    const Rows rows = run(find_next_jobs, Params().add(Int64GetDatum(behind)).add(Int64GetDatum(batch)));
    ArrayColumn gone(static_cast<int>(rows.size()));
    for (uint64 i = 0; i < rows.size(); i++)
        if (rows[i].bool_at(2)) gone.add(rows[i].get(1));
    behind = rows.size() == static_cast<uint64>(batch) ? rows[rows.size() - 1].int64_at(1) : 0;
    if (gone.count > 0) run(delete_of_jobs, Params().add(gone.array(INT8OID)));
}

}  // namespace

int64 add_signal(text *queue, text *event, bool has_payload, Datum payload) {
    const Rows added = run(add_to_queue, addition(PointerGetDatum(queue), event, has_payload, payload));
    return added.size() == 0 ? 0 : added[0].int64_at(1);
}

bool add_job_signal(int64 job, text *event, bool has_payload, Datum payload) {
    run(add_to_job, addition(Int64GetDatum(job), event, has_payload, payload));
    return affected() == 1;
}

Signal find_signal(int64 job, text *queue, text *event, Snapshot snapshot) {
    Signal signal = {};
    const Rows rows =
        read(find, Params().add(Int64GetDatum(job)).add(PointerGetDatum(queue)).add(PointerGetDatum(event)), snapshot);
    signal.there = rows.size() > 0;
    if (!signal.there) return signal;
    bool none;
    signal.payload = rows[0].get(1, &none);
    signal.has_payload = !none;
    return signal;
}

bool delete_signals_of_queue(text *queue) {
    if (!is_in_use("signals")) return false;
    run(delete_of_queue, Params().add(PointerGetDatum(queue)));
    return affected() > 0;
}

void delete_job_signals(Datum *ids, int count) {
    if (count > 0 && is_in_use("job_signals")) run(delete_of_jobs, Params().add(array_of(ids, count, INT8OID)));
}

void delete_all_job_signals() {
    if (is_in_use("job_signals")) run(delete_all, Params());
}

void move_job_signals(int64 from, int64 to) {
    if (is_in_use("job_signals")) run(move, Params().add(Int64GetDatum(from)).add(Int64GetDatum(to)));
}

bool prune_signals(TimestampTz sent_before, int batch) {
    // The time from which the next call continues. Without it, each call would read the same awaited signals again,
    // because they are not deleted.
    static TimestampTz behind = DT_NOBEGIN;
    prune_job_signals(batch);
    if (!is_in_use("signals")) return false;
    const Rows old =
        run(find_old,
            Params().add(TimestampTzGetDatum(sent_before)).add(TimestampTzGetDatum(behind)).add(Int64GetDatum(batch)));
    const int count = static_cast<int>(old.size());
    behind = count == batch ? DatumGetTimestampTz(old[count - 1].get(3)) : DT_NOBEGIN;
    if (count == 0) return false;
    ArrayColumn queues(count), events(count);
    for (int i = 0; i < count; i++) {
        queues.add(old[i].get(1));
        events.add(old[i].get(2));
    }
    run(delete_old,
        Params().add(queues.array(TEXTOID)).add(events.array(TEXTOID)).add(TimestampTzGetDatum(sent_before)));
    return count == batch && affected() > 0;
}

}  // namespace jobq
