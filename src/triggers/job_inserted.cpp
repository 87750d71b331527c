// The triggers for INSERT on jobq.jobs. They make a plain INSERT or COPY, including one from a dump, equivalent to a
// call to jobq_enqueue().
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/rights.h"
#include "compat/spi.h"
#include "core/group.h"
#include "core/retry.h"
#include "duties/dump_restore.h"
#include "enqueue/depth.h"
#include "enqueue/unique.h"
#include "finish/batch_members.h"
#include "lanes/own_numbers.h"
#include "limits/limit_settings.h"
#include "log/transaction_log.h"
#include "queues/directory.h"
#include "row/jobs_table.h"
#include "row/numbers.h"
#include "row/payload.h"
#include "row/shard.h"
#include "triggers/job_row.h"

namespace jobq {

namespace {

// Makes sure that the queue has room for the job, as jobq_enqueue() does. The unique index later rejects a job whose
// unique key is taken, so such a job needs no room.
void ask_for_room(const JobRow &row) {
    const std::string_view name = text_of(row, kJobQueue);
    if (find_queue(name)->max_depth == 0 || !core::is_waiting(status_of(row))) return;
    const TimestampTz now = GetCurrentTimestamp();
    if (row.has(kJobUniqueKey)) {
        WantedKey key = {};
        key.queue = make_text(name);
        key.unique_key = DatumGetTextPP(row.get(kJobUniqueKey));
        find_holders(&key, 1, now);
        if (key.holder != 0) return;
    }
    make_room(name, 1, now);
}

void fill(JobRow *row, bool is_new) {
    const TimestampTz now = GetCurrentTimestamp();
    row->default_to(kJobCreatedAt, TimestampTzGetDatum(now));
    row->default_to(kJobKind, PointerGetDatum(make_text("")));
    row->default_to(kJobPayload, DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
    row->default_to(kJobPriority, Int16GetDatum(0));
    row->default_to(kJobVersion, Int32GetDatum(0));
    const core::QueueSettings &settings = settings_for(*find_queue(text_of(*row, kJobQueue)), text_of(*row, kJobKind));
    // A row from a dump already has the expires_at and the limits that its enqueue has set.
    if (is_new && settings.limits.count > 0)
        row->default_to(kJobLimits, array_of_names(settings.limits.items, settings.limits.count));
    row->fill_life(settings.max_attempts, is_new ? settings.expires_in : 0, now);
}

// Determines whether a job that is added with a plain INSERT is the head of its group, waits in the line, or neither.
// `restored` means that the row comes from a dump.
core::GroupPlace inserted_place(const JobRow &row, core::JobStatus status, bool restored) {
    core::GroupPlace place = core::GroupPlace::None;
    if (!row.has(kJobGroupKey)) return place;
    // A job that awaits something is the head of its group, like a scheduled job.
    if (restored && core::awaits(row.state().life)) status = core::JobStatus::Scheduled;
    if (!core::place_inserted(status, restored, row.has(kJobGroupActive), &place)) refuse_not_group_head();
    // A restored job that was waiting for its dependencies is not in the line of its group. The job continues to wait
    // for its dependencies, because its edges are restored, too.
    if (restored && status == core::JobStatus::Blocked && !row.has(kJobGroupWaiting)) return core::GroupPlace::None;
    return place;
}

// For a role without the privileges of the table's owner, clears all columns that a producer cannot set with
// jobq_enqueue(). Keeps the status only if a job with this status is waiting to run.
void check_producer(JobRow *row) {
    require_known_queue(text_of(*row, kJobQueue));
    for (const JobColumn column : {kJobPayload, kJobMetadata})
        if (row->has(column)) check_json_size(row->get(column), job_column_name(column));
    for (int i = 0; i < kAllJobColumns; i++) {
        const JobAttribute column = job_attribute(i);
        const bool is_his = kFilledBy[i] == FilledBy::Producer &&
                            (column.number != kJobStatus || !row->has(kJobStatus) || core::is_waiting(status_of(*row)));
        if (!is_his && row->has(column)) row->clear(column);
    }
    // Gives every row a new id, because an id that the statement sets cannot be distinguished from an id that the
    // default sets.
    row->set(kJobId, Int64GetDatum(next_job_id()));
}

// Computes the columns that depend on other columns. Ignores the values of these columns in the INSERT, because a dump
// can come from another database, in which the lanes have different numbers. Keeps leases and times if they are
// consistent.
void derive(JobRow *row, bool restored) {
    row->set(kJobLane, Int64GetDatum(lane_of(*row)));
    core::Life written = row->state().life;
    // The number of the group is always computed from the keys, because the number in a dump can be different.
    if (row->has(kJobGroupKey)) written.group = group_of(*row);
    const core::GroupPlace place = inserted_place(*row, written.status, restored);
    const Queue *queue = find_queue(text_of(*row, kJobQueue));
    const core::Life life =
        core::inserted_by_hand(written, facts_by_hand(*row, *queue, place, false), GetCurrentTimestamp());
    row->set_life(life);
    if (!core::is_finished(life.status)) row->clear(kJobDeadFrom);
    // Clears the transaction ID, because it belongs to another cluster if the row comes from a dump.
    row->clear(kJobClaimXid);
}

// Computes the round-robin key of a job if its queue has round_robin. Also recomputes the key of a restored job that
// already has a key, because the settings of the queue might be restored later.
void derive_round_robin_key(JobRow *row) {
    if (!row->has(kJobRoundRobinKey) && !find_queue(text_of(*row, kJobQueue))->round_robin) return;
    const std::string_view key = row->has(kJobConcurrencyKey) ? text_of(*row, kJobConcurrencyKey) : std::string_view();
    row->set(kJobRoundRobinKey, Int64GetDatum(round_robin_key_of(key)));
}

// The last transaction that has inserted rows from a dump. The AFTER trigger uses this transaction ID to recognize such
// rows, so that unique keys that the jobs held do not make a restore fail.
TransactionId restoring = InvalidTransactionId;

void complete_row(JobRow *row, bool producer) {
    if (producer) check_producer(row);
    // A row that contains its lane comes from a dump. Some checks are skipped for such a row, because a limit or one
    // unusual row must not make a restore fail.
    const bool is_new = !row->has(kJobLane);
    if (!is_new) restoring = GetTopTransactionId();
    fill(row, is_new);
    check_row(*row);
    if (is_new) check_history(*row);
    if (is_new) check_id(*row);
    if (is_new) require_own_shard(DatumGetInt64(row->get(kJobId)));
    if (is_new && row->has(kJobBatchId)) join_batch(DatumGetInt64(row->get(kJobBatchId)), nullptr);
    if (is_new) ask_for_room(*row);
    derive(row, !is_new);
    derive_round_robin_key(row);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_fill_job);
PGDLLEXPORT Datum jobq_fill_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_INSERT, true);
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    JobRow row(trigger->tg_trigtuple, desc);
    // Checks the columns that determine the lane, so that the error names them instead of the internal column _lane,
    // which would violate its NOT NULL constraint.
    if (!row.has(kJobQueue))
        ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
                        errmsg("null value in column \"queue\" of relation \"jobs\" violates not-null constraint"),
                        errtablecol(trigger->tg_relation, kJobQueue)));
    check_queue_name(text_of(row, kJobQueue), "queue");
    const Oid owner = owner_of(trigger);
    const bool producer = !has_rights_of(owner);
    as_role(owner, [&] { with_spi([&] { complete_row(&row, producer); }); });
    return PointerGetDatum(row.tuple());
}

// Counts and publishes the new job. Unlike jobq_fill_job, this trigger runs after the insert, because ON CONFLICT or
// another trigger might have skipped the row.
PG_FUNCTION_INFO_V1(jobq_count_job);
PGDLLEXPORT Datum jobq_count_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_INSERT, false);
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    const JobRow row(trigger->tg_trigtuple, desc);
    const JobState job = row.state();
    log_new_job(job, false);
    log_group_head(job.life);
    if (job.life.rescue_indexed) log_lease_deadline(DT_NOBEGIN);
    const bool restored = TransactionIdIsValid(restoring) && restoring == GetTopTransactionIdIfAny();
    if (status_of(row) == core::JobStatus::Processing) with_spi([&] { expect_slots(slots_of(row)); });
    if (job.life.holds_key && !restored) with_spi([&] { check_kept_key(row, kJobQueue); });
    if (job.life.status == core::JobStatus::Blocked) log_unblocked(Blocker::Edge, -job.id);
    return Datum(0);
}

// Replaces the numbers of the lane, group, and slots in a replicated row with their numbers in this database. Runs with
// session_replication_role = replica, for example in an apply worker.
PG_FUNCTION_INFO_V1(jobq_renumber_job);
PGDLLEXPORT Datum jobq_renumber_job(PG_FUNCTION_ARGS) {
    const bool update = TRIGGER_FIRED_BY_UPDATE(trigger_data(fcinfo)->tg_event);
    const TriggerData *trigger = job_trigger(fcinfo, update ? TRIGGER_EVENT_UPDATE : TRIGGER_EVENT_INSERT, true);
    HeapTuple tuple = row_after(trigger);
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    // Leaves a row with a NULL in a NOT NULL column unchanged, because the constraint will reject the row.
    for (int column = 1; column <= desc->natts; column++)
        if (TupleDescAttr(desc, column - 1)->attnotnull && heap_attisnull(tuple, column, desc))
            return PointerGetDatum(tuple);
    const OwnNumbers own = own_numbers(tuple, desc);
    if (!own.differ) return PointerGetDatum(tuple);
    const struct {
        JobColumn column;
        core::OptInt64 number;
    } numbers[] = {{kJobLane, own.lane},
                   {kJobGroupWaiting, own.life.group_waiting},
                   {kJobGroupActive, own.life.group_active},
                   {kJobQueueSlot, own.life.queue_slot},
                   {kJobKeySlot, own.life.key_slot},
                   {kJobKindSlot, own.life.kind_slot},
                   {kJobLimitSlot1, own.life.limit_slot1},
                   {kJobLimitSlot2, own.life.limit_slot2},
                   {kJobRoundRobinKey, own.round_robin_key}};
    JobRow row(tuple, desc);
    for (const auto &each : numbers)
        if (each.number) row.set(each.column, Int64GetDatum(*each.number));
    return PointerGetDatum(row.tuple());
}

PG_FUNCTION_INFO_V1(jobq_note_restore);
PGDLLEXPORT Datum jobq_note_restore(PG_FUNCTION_ARGS) {
    if (restores(owner_of(trigger_data(fcinfo)))) note_restore();
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
