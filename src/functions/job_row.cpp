// See job_row.h.
#include "pg/pg.h"

#include "core/clock.h"
#include "core/group.h"
#include "functions/job_row.h"
#include "pg/args.h"
#include "shared/publish.h"
#include "shared/unblock.h"
#include "store/groups.h"
#include "store/lanes.h"
#include "store/unique.h"

namespace jobq {

namespace {

// A claim adds one: the sum must fit.
void check_count(const JobRow &row, const char *column) {
    const int32 count = DatumGetInt32(row.get(column));
    if (count < 0 || count > core::kMaxAttempts)
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("column \"%s\" is out of range: %d", column, count),
                        errhint("It counts from 0 to %d.", core::kMaxAttempts)));
}

// Times that the duties reckon with: sums with a timeout must fit, and a lease must run out some day.
void check_moment(const JobRow &row, const char *column) {
    if (!row.has(column)) return;
    const TimestampTz value = DatumGetTimestampTz(row.get(column));
    if (value == core::bounded_moment(value)) return;
    ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE), errmsg("column \"%s\" is out of range", column),
                    errhint("It is a time between the years 1 and 6000, or NULL.")));
}

void check_lease_timeout(const Interval *value) {
    const core::Micros span = span_of(value);
    if (span < core::kMinHeartbeatTimeout || span > core::kMaxHeartbeatTimeout)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("column \"lease_timeout\" must be between 10 ms and 365 days"),
                        errhint("Leave it out to take the timeout of the job or its queue.")));
}

}  // namespace

const TriggerData *trigger_data(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("this function can only be called as a trigger")));
    return reinterpret_cast<const TriggerData *>(fcinfo->context);
}

Oid owner_of(const TriggerData *trigger) { return trigger->tg_relation->rd_rel->relowner; }

const TriggerData *job_trigger(FunctionCallInfo fcinfo, TriggerEvent event, bool before) {
    const TriggerData *trigger = trigger_data(fcinfo);
    const bool fits = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) && (trigger->tg_event & TRIGGER_EVENT_OPMASK) == event &&
                      (before ? TRIGGER_FIRED_BEFORE(trigger->tg_event) : TRIGGER_FIRED_AFTER(trigger->tg_event)) &&
                      strcmp(RelationGetRelationName(trigger->tg_relation), "jobs") == 0 &&
                      RelationGetNamespace(trigger->tg_relation) == get_namespace_oid("jobq", true);
    if (!fits)
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("this function serves only the triggers that jobq declares on jobq.jobs")));
    return trigger;
}

std::string_view text_of(const JobRow &row, const char *column) { return view(DatumGetTextPP(row.get(column))); }

core::JobStatus status_of(const JobRow &row) {
    core::JobStatus status = core::JobStatus::Pending;
    core::parse_status(DatumGetCString(DirectFunctionCall1(enum_out, row.get("status"))), &status);
    return status;
}

int64 group_of(const JobRow &row) { return core::group_hash(text_of(row, "queue"), text_of(row, "group_key")); }

SlotRow slots_of(const JobRow &row) {
    return {DatumGetInt64(row.get("id")),
            text_of(row, "queue"),
            row.has("concurrency_key") ? text_of(row, "concurrency_key") : std::string_view(),
            status_of(row) == core::JobStatus::Processing,
            row.has("queue_slot") ? DatumGetInt64(row.get("queue_slot")) : 0,
            row.has("key_slot") ? DatumGetInt64(row.get("key_slot")) : 0};
}

void check_row(const JobRow &row) {
    check_queue_name(text_of(row, "queue"), "queue");
    check_name(text_of(row, "kind"), "kind", core::kMaxKindBytes, true);
    check_positive(DatumGetInt32(row.get("max_attempts")), "max_attempts");
    check_finite(DatumGetTimestampTz(row.get("run_at")), "run_at");
    if (row.has("unique_key")) check_unique_key(text_of(row, "unique_key"), "unique_key");
    if (row.has("unique_for")) check_unique_for(DatumGetIntervalP(row.get("unique_for")), row.has("unique_key"));
    if (row.has("concurrency_key")) check_concurrency_key(text_of(row, "concurrency_key"), "concurrency_key");
    if (row.has("group_key")) check_group_key(text_of(row, "group_key"), "group_key");
    if (row.has("dead_from")) check_queue_name(text_of(row, "dead_from"), "dead_from");
    if (row.has("heartbeat_timeout")) check_heartbeat_timeout(DatumGetIntervalP(row.get("heartbeat_timeout")));
    if (row.has("max_runtime")) check_max_runtime(DatumGetIntervalP(row.get("max_runtime")));
}

void check_history(const JobRow &row) {
    check_count(row, "attempts");
    check_count(row, "lost_attempts");
    if (row.has("lease_timeout")) check_lease_timeout(DatumGetIntervalP(row.get("lease_timeout")));
    for (const char *column : {"created_at", "started_at", "last_heartbeat", "cancel_requested_at"})
        check_moment(row, column);
    if (row.has("worker_id")) check_name(text_of(row, "worker_id"), "worker_id", core::kMaxWorkerBytes, true);
}

void check_kept_key(const JobRow &row, const char *queue) {
    refuse_kept_key(DatumGetInt64(row.get("id")), text_of(row, queue), text_of(row, "unique_key"));
}

[[noreturn]] void refuse_turn() {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a job of a group cannot be set to processing by hand"),
                    errdetail("Another job of the group may have its turn."),
                    errhint("Set it to pending: it becomes claimable when its turn comes.")));
    pg_unreachable();
}

int64 lane_of(const JobRow &row) {
    return ensure_lane(text_of(row, "queue"), text_of(row, "kind"), DatumGetInt32(row.get("version")),
                       row.has("requires") ? DatumGetArrayTypeP(row.get("requires")) : nullptr);
}

void publish_row(const JobRow &row) {
    if (row.has("ready_at"))
        tell_ready(text_of(row, "queue"), DatumGetInt64(row.get("lane")),
                   {DatumGetTimestampTz(row.get("ready_at")), DatumGetInt64(row.get("id")),
                    DatumGetInt16(row.get("priority"))});
    publish_due_at_commit(DatumGetTimestampTz(row.get("run_at")));
}

void publish_place(const JobRow &row) {
    if (row.has("group_waiting"))
        publish_group_waits(DatumGetInt64(row.get("group_waiting")), DatumGetInt64(row.get("id")));
    if (row.has("group_active")) publish_unblocked_anywhere_at_commit(Blocker::Group);
}

}  // namespace jobq
