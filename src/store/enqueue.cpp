// See enqueue.h. Jobs are inserted below SQL (store/jobs_table.h), many at once.
#include "pg/pg.h"

#include "core/fairness.h"
#include "pg/args.h"
#include "shared/counting.h"
#include "shared/publish.h"
#include "store/directory.h"
#include "store/enqueue.h"
#include "store/groups.h"
#include "store/lanes.h"
#include "store/rows.h"

namespace jobq {

namespace {

// A running job without a lease of ours still gets a deadline, so that it cannot run for ever. `o` is the row before:
// nobody else can change it, since this transaction has.
#define CAN_START "(j.status IN ('pending', 'scheduled') OR j.status = 'blocked' AND $7)"
Statement settle = {
    R"(UPDATE jobq.jobs j
       SET lane = $2,
           status = CASE WHEN $5 IS NOT NULL THEN 'blocked'::jobq.job_status
                         WHEN NOT )" CAN_START R"( THEN j.status
                         WHEN j.run_at <= $4 THEN 'pending'::jobq.job_status
                         ELSE 'scheduled'::jobq.job_status END,
           ready_at = CASE WHEN $5 IS NULL AND )" CAN_START R"( AND j.run_at <= $4 THEN j.run_at END,
           due_at = CASE WHEN $5 IS NULL AND )" CAN_START R"( AND j.run_at > $4 THEN j.run_at END,
           group_waiting = $5, group_active = $6,
           unique_held = CASE WHEN j.status NOT IN ('completed', 'failed', 'cancelled') THEN j.unique_key END,
           lease = CASE j.status WHEN 'processing' THEN j.lease END,
           watched = CASE j.status WHEN 'processing' THEN true END,
           last_heartbeat = CASE j.status WHEN 'processing' THEN coalesce(j.last_heartbeat, $4)
                                          ELSE j.last_heartbeat END,
           lease_timeout = CASE j.status WHEN 'processing' THEN coalesce(j.lease_timeout, j.heartbeat_timeout, $3)
                                         ELSE j.lease_timeout END,
           must_end_at = CASE j.status WHEN 'processing' THEN coalesce(j.started_at, j.last_heartbeat, $4)
                                                              + coalesce(j.max_runtime, $8) END,
           result = CASE j.status WHEN 'completed' THEN j.result END,
           cancel_requested_at = CASE WHEN j.status IN ('processing', 'completed', 'failed', 'cancelled')
                                      THEN j.cancel_requested_at END,
           turn = CASE WHEN $9 THEN jobq.turn_of(j.concurrency_key) END,
           finished_at = CASE WHEN j.status IN ('completed', 'failed', 'cancelled')
                              THEN coalesce(j.finished_at, $4) END
       FROM jobq.jobs o
       WHERE j.id = $1 AND o.id = j.id
       RETURNING )" READY_COLUMNS ", o.status::text, j.status::text",
    {INT8OID, INT8OID, INTERVALOID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID, INTERVALOID, BOOLOID}};

// What all jobs of a call share, as values of columns.
struct SharedColumns {
    const JobSpec &spec;
    int64 lane;
    TimestampTz now;
    bool in_turns;
};

// The next row to be inserted.
void add_job(JobsTable *jobs, const SharedColumns &shared, Datum payload, TimestampTz run_at, int16 priority,
             text *concurrency_key, text *group_key) {
    const JobSpec &spec = shared.spec;
    TupleTableSlot *row = add_row(&jobs->table);
    const bool due = run_at <= shared.now;
    set_column(row, kJobId, Int64GetDatum(next_job_id()));
    set_column(row, kJobCreatedAt, TimestampTzGetDatum(shared.now));
    set_column(row, kJobLane, Int64GetDatum(shared.lane));
    set_column(row, kJobMaxAttempts, Int32GetDatum(spec.max_attempts));
    set_column(row, kJobVersion, Int32GetDatum(spec.version));
    set_column(row, kJobPriority, Int16GetDatum(priority));
    set_column(row, kJobQueue, PointerGetDatum(spec.queue));
    set_column(row, kJobKind, PointerGetDatum(spec.kind));
    set_column(row, kJobPayload, payload);
    if (spec.has_metadata) set_column(row, kJobMetadata, spec.metadata);
    if (spec.required != nullptr) set_column(row, kJobRequires, PointerGetDatum(spec.required));
    if (spec.heartbeat_timeout != nullptr)
        set_column(row, kJobHeartbeatTimeout, IntervalPGetDatum(spec.heartbeat_timeout));
    if (shared.in_turns) {
        const int64 turn = core::turn_of(concurrency_key == nullptr ? std::string_view() : view(concurrency_key));
        set_column(row, kJobTurn, Int64GetDatum(turn));
    }
    if (spec.max_runtime != nullptr) set_column(row, kJobMaxRuntime, IntervalPGetDatum(spec.max_runtime));
    if (concurrency_key != nullptr) set_column(row, kJobConcurrencyKey, PointerGetDatum(concurrency_key));
    set_column(row, kJobRunAt, TimestampTzGetDatum(run_at));
    if (group_key != nullptr) set_column(row, kJobGroupKey, PointerGetDatum(group_key));
    // Whether they have finished, or it is its turn, is not for the producer to say: see store/unblock.h. The turn
    // comes after the dependencies.
    const bool depends = spec.depends_on_count > 0;
    if (group_key != nullptr && !depends)
        set_column(row, kJobGroupWaiting, Int64GetDatum(core::group_hash(view(spec.queue), view(group_key))));
    if (group_key != nullptr || depends) {
        set_column(row, kJobStatus, ObjectIdGetDatum(blocked_status()));
    } else {
        set_column(row, due ? kJobReadyAt : kJobDueAt, TimestampTzGetDatum(run_at));
        set_column(row, kJobStatus, ObjectIdGetDatum(due ? pending_status() : scheduled_status()));
    }
    set_column(row, kJobAttempts, Int32GetDatum(0));
    set_column(row, kJobLostAttempts, Int32GetDatum(0));
}

// Tells of a row that has been inserted, as it is: a trigger of somebody's may have changed it. Returns its id.
int64 tell_of_job(TupleTableSlot *row) {
    bool waits;
    bool is_null;
    const int64 id = DatumGetInt64(slot_getattr(row, kJobId, &is_null));
    const std::string_view queue = view(DatumGetTextPP(slot_getattr(row, kJobQueue, &is_null)));
    const int16 priority = DatumGetInt16(slot_getattr(row, kJobPriority, &is_null));
    const int64 lane = DatumGetInt64(slot_getattr(row, kJobLane, &is_null));
    bool ungrouped;
    const Datum group = slot_getattr(row, kJobGroupWaiting, &ungrouped);
    const Datum ready_at = slot_getattr(row, kJobReadyAt, &waits);
    if (!ungrouped)
        publish_group_waits(DatumGetInt64(group), id);
    else if (waits)
        publish_due_at_commit(DatumGetTimestampTz(slot_getattr(row, kJobRunAt, &is_null)));
    else
        tell_ready(queue, lane, {DatumGetTimestampTz(ready_at), id, priority}, true);
    count_inserts_at_commit(queue, job_status_of(slot_getattr(row, kJobStatus, &is_null)), 1);
    return id;
}

}  // namespace

void insert_jobs(JobsTable *jobs, const JobSpec &spec, const JobColumns &columns, int count, TimestampTz now,
                 int64 *ids) {
    const SharedColumns shared = {spec, ensure_lane(view(spec.queue), view(spec.kind), spec.version, spec.required),
                                  now, find_queue(view(spec.queue))->round_robin};
    for (int first = 0; first < count; first += kMaxAdded) {
        const int end = Min(first + kMaxAdded, count);
        for (int i = first; i < end; i++)
            add_job(jobs, shared, columns.payloads[i],
                    columns.run_ats == nullptr ? spec.run_at : DatumGetTimestampTz(columns.run_ats[i]),
                    columns.priorities == nullptr ? spec.priority
                                                  : static_cast<int16>(DatumGetInt32(columns.priorities[i])),
                    text_in(columns.concurrency_keys, spec.concurrency_key, i),
                    text_in(columns.group_keys, spec.group_key, i));
        insert_rows(&jobs->table);
        for (int i = first; i < end; i++) ids[i] = tell_of_job(jobs->table.added[i - first]);
    }
}

void settle_job(int64 id, int64 lane, const Queue &queue, const GroupEntry &entry) {
    const Rows rows =
        run(settle, Params()
                        .add(Int64GetDatum(id))
                        .add(Int64GetDatum(lane))
                        .add(IntervalPGetDatum(make_interval(queue.heartbeat_timeout)))
                        .add(TimestampTzGetDatum(GetCurrentTimestamp()))
                        .add_if(entry.place == core::GroupPlace::Waiting, Int64GetDatum(entry.group))
                        .add_if(entry.place == core::GroupPlace::Active, Int64GetDatum(entry.group))
                        .add(BoolGetDatum(entry.has_left))
                        .add_if(queue.max_runtime > 0, IntervalPGetDatum(make_interval(queue.max_runtime)))
                        .add(BoolGetDatum(queue.round_robin)));
    publish_ready_rows(rows, 1);
    for (uint64 i = 0; i < rows.size(); i++)
        count_at_commit(rows[i].text_at(2), status_at(rows[i], 6), status_at(rows[i], 7), 1);
}

}  // namespace jobq
