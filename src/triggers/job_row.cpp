// See job_row.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "core/clock.h"
#include "core/group.h"
#include "enqueue/attributes.h"
#include "enqueue/unique.h"
#include "job/job_arguments.h"
#include "lanes/lanes.h"
#include "log/transaction_log.h"
#include "row/jobs_table.h"
#include "row/numbers.h"
#include "row/shard_policy.h"
#include "triggers/job_row.h"

namespace jobq {

namespace {

// Raises an error if the count is negative or too large. A claim adds 1 to the count, and the sum must not overflow.
void check_count(const JobRow &row, JobColumn column) {
    const int32 count = DatumGetInt32(row.get(column));
    if (count < 0 || count > core::kMaxAttempts)
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("column \"%s\" must be between 0 and %d, not %d", job_column_name(column),
                               core::kMaxAttempts, count),
                        errhint("Omit the column to use the default.")));
}

// Raises an error if the time is out of range. Duties add a timeout to the time, so the sum must not overflow, and a
// lease must expire at some point.
void check_moment(const JobRow &row, JobColumn column) {
    if (!row.has(column)) return;
    const TimestampTz value = DatumGetTimestampTz(row.get(column));
    if (value == core::bounded_moment(value)) return;
    ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
                    errmsg("column \"%s\" is out of range", job_column_name(column)),
                    errhint("Use a time between the years 1 and 6000, or NULL.")));
}

void check_lease_timeout(const Interval *value) {
    const core::Micros span = span_of(value);
    // Accepts kEndlessLease, the timeout of executors' leases, because dumps contain this timeout unchanged.
    if (span != core::kEndlessLease && span != core::bounded(core::kHeartbeatTimeout, span))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("column \"_lease_timeout\" must be between 10 ms and 365 days"),
                        errhint("Omit the column to use the timeout of the job or its queue.")));
}

int64 slot_in(const JobRow &row, JobColumn column) { return row.has(column) ? DatumGetInt64(row.get(column)) : 0; }

}  // namespace

const TriggerData *job_trigger(FunctionCallInfo fcinfo, TriggerEvent event, bool before) {
    const TriggerData *trigger =
        trigger_on(fcinfo, "jobs", before ? TriggerTiming::BeforeRow : TriggerTiming::AfterRow);
    if ((trigger->tg_event & TRIGGER_EVENT_OPMASK) != event) serves_only_triggers_of("jobs");
    jobs_catalog();  // raises an error if the columns are not as expected
    return trigger;
}

std::string_view text_of(const JobRow &row, JobColumn column) { return view(DatumGetTextPP(row.get(column))); }

core::JobStatus status_of(const JobRow &row) { return job_status_of(row.get(kJobStatus)); }

int64 group_of(const JobRow &row) { return group_number(text_of(row, kJobQueue), text_of(row, kJobGroupKey)); }

SlotRow slots_of(const JobRow &row) {
    return {.id = DatumGetInt64(row.get(kJobId)),
            .queue = text_of(row, kJobQueue),
            .key = row.has(kJobConcurrencyKey) ? text_of(row, kJobConcurrencyKey) : std::string_view(),
            .kind = text_of(row, kJobKind),
            .limits = row.has(kJobLimits) ? names_in_limits(DatumGetArrayTypeP(row.get(kJobLimits))) : LimitNames{},
            .running = status_of(row) == core::JobStatus::Processing,
            .slots = {slot_in(row, kJobQueueSlot), slot_in(row, kJobKeySlot), slot_in(row, kJobKindSlot),
                      slot_in(row, kJobLimitSlot1), slot_in(row, kJobLimitSlot2)}};
}

void check_row(const JobRow &row) {
    check_queue_name(text_of(row, kJobQueue), "queue");
    check_name(text_of(row, kJobKind), "kind", core::kMaxKindBytes, true);
    check_positive(DatumGetInt32(row.get(kJobMaxAttempts)), "max_attempts");
    check_finite(DatumGetTimestampTz(row.get(kJobRunAt)), "run_at");
    if (row.has(kJobExpiresAt)) check_finite(DatumGetTimestampTz(row.get(kJobExpiresAt)), "expires_at");
    if (row.has(kJobUniqueKey)) check_unique_key(text_of(row, kJobUniqueKey), "unique_key");
    if (row.has(kJobConcurrencyKey)) check_concurrency_key(text_of(row, kJobConcurrencyKey), "concurrency_key");
    if (row.has(kJobGroupKey)) check_group_key(text_of(row, kJobGroupKey), "group_key");
    if (row.has(kJobDeadFrom)) check_queue_name(text_of(row, kJobDeadFrom), "dead_from");
    for (const AttributeTraits &attribute : kAttributes)
        if (attribute.check != nullptr && row.has(attribute.column))
            attribute.check(row.get(attribute.column), row.has(kJobUniqueKey));
}

void check_history(const JobRow &row) {
    check_count(row, kJobAttempts);
    check_count(row, kJobLostAttempts);
    if (row.has(kJobLeaseTimeout)) check_lease_timeout(DatumGetIntervalP(row.get(kJobLeaseTimeout)));
    for (const JobColumn column : {kJobCreatedAt, kJobStartedAt, kJobLastHeartbeat, kJobCancelRequestedAt})
        check_moment(row, column);
    if (row.has(kJobWorkerId)) check_name(text_of(row, kJobWorkerId), "worker_id", core::kMaxWorkerBytes, true);
}

// Raises an error if the id is below 1, because other parts of jobq use such numbers with a different meaning: a job
// with dependencies, an event, or no job at all. Also raises an error if the id is the end of all ids.
void check_id(const JobRow &row) {
    const int64 id = DatumGetInt64(row.get(kJobId));
    if (id > core::kLastId)
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("column \"id\" must be at most %lld, not %lld", static_cast<long long>(core::kLastId),
                               static_cast<long long>(id)),
                        errhint("Omit the column to use the next id.")));
    if (id >= 1) return;
    ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                    errmsg("column \"id\" must be at least 1, not %lld", static_cast<long long>(id)),
                    errhint("Omit the column to use the next id.")));
}

void check_kept_key(const JobRow &row, JobColumn queue) {
    refuse_kept_key(DatumGetInt64(row.get(kJobId)), text_of(row, queue), text_of(row, kJobUniqueKey));
}

[[noreturn]] void refuse_not_group_head() {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("the status of a job in a group cannot be set to \"processing\" with plain SQL"),
             errdetail("Another job may be the head of the group."),
             errhint("Set the status to \"pending\". The job becomes claimable when it is the head of its group.")));
    pg_unreachable();
}

int64 lane_of(const JobRow &row) {
    return ensure_lane(text_of(row, kJobQueue), text_of(row, kJobKind), DatumGetInt32(row.get(kJobVersion)),
                       row.has(kJobRequires) ? DatumGetArrayTypeP(row.get(kJobRequires)) : nullptr,
                       row.has(kJobLimits) ? DatumGetArrayTypeP(row.get(kJobLimits)) : nullptr);
}

core::ByHand facts_by_hand(const JobRow &row, const Queue &queue, core::GroupPlace place, bool has_left) {
    const core::QueueSettings &settings = settings_for(queue, text_of(row, kJobKind));
    core::ByHand facts = {place, has_left, settings.heartbeat_timeout, settings.max_runtime};
    if (row.has(kJobHeartbeatTimeout)) facts.timeout = span_of(DatumGetIntervalP(row.get(kJobHeartbeatTimeout)));
    if (row.has(kJobMaxRuntime)) facts.max_runtime = span_of(DatumGetIntervalP(row.get(kJobMaxRuntime)));
    return facts;
}

void log_group_head(const core::Life &life) {
    if (life.group_active) log_unblocked_anywhere(Blocker::Group);
}

}  // namespace jobq
