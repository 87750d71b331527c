// Administrators' functions: queues and their settings.
#include "compat/pg.h"

#include "claim/fairness_policy.h"
#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "enqueue/backpressure_policy.h"
#include "job/jobs_table.h"
#include "job/owner.h"
#include "job/status.h"
#include "lanes/empty_ranges.h"
#include "operate/operate.h"
#include "operate/queues.h"
#include "operate/statuses_argument.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "queues/known_queues.h"
#include "table/attached.h"

namespace jobq {

namespace {

text *queue_argument(FunctionCallInfo fcinfo) { return granted_queue(fcinfo, 0, "queue"); }

void check_on_full(const text *value) {
    core::FullPolicy policy;
    if (core::parse_full_policy(view(value), &policy)) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"on_full\" has no such choice: \"%s\"", text_to_cstring(value)),
                    errhint("Use 'reject' or 'drop_oldest'.")));
}

void check_on_max_runtime(const text *value) {
    core::OnMaxRuntime choice;
    if (core::parse_on_max_runtime(view(value), &choice)) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"on_max_runtime\" has no such choice: \"%s\"", text_to_cstring(value)),
                    errhint("Use 'fail' or 'cancel'.")));
}

// Zero: none.
void check_priority_ageing(const Interval *value) {
    const core::Micros span = check_span(value, "priority_ageing", Zero::Allowed);
    if (span != 0 && (span < core::kMinPriorityAgeing || span > core::kMaxPriorityAgeing))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"priority_ageing\" must be between 1 ms and 365 days, or 0"),
                        errhint("It is how long a job waits for one step of priority; 0: waiting does not count.")));
}

// Empty: none.
void check_dead_letter_queue(FunctionCallInfo fcinfo, std::string_view queue, std::string_view dead_letter_queue) {
    if (dead_letter_queue.empty()) return;
    check_queue_name(dead_letter_queue, "dead_letter_queue");
    check_scope(scope_of(fcinfo), dead_letter_queue);
    if (dead_letter_queue == queue)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"dead_letter_queue\" must not be the queue itself"),
                        errhint("Name another queue. Failed jobs stay where they are without one.")));
    require_known_queue(dead_letter_queue);
}

// Inside with_spi(), when the settings have been written.
void refuse_unkept_dead_letters(text *queue, const QueueSettings &written) {
    if (!written.given[kKeepFailed] && !written.given[kDeadLetterQueue]) return;
    const Rows unkept = unkept_dead_letters(queue);
    if (unkept.size() == 0) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("queue \"%s\" is a dead letter queue, and would not keep failed jobs",
                           TextDatumGetCString(unkept[0].get(1))),
                    errhint("Give it a keep_failed above 0, or use another dead_letter_queue.")));
}

// Zero: none.
void check_max_depth(int32 max_depth) {
    if (max_depth >= 0) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"max_depth\" must not be negative: %d", max_depth),
                    errhint("It is how many jobs may wait; 0: any number.")));
}

// Zero: none.
void check_queue_max_runtime(const Interval *value) {
    if (check_span(value, "max_runtime", Zero::Allowed) != 0) check_max_runtime(value);
}

// Switched on, it locks jobq.jobs until the transaction ends (claim/round_robin_setting.cpp).
void check_round_robin(FunctionCallInfo fcinfo, bool round_robin) {
    if (!round_robin || scope_of(fcinfo) == nullptr) return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied to switch on round_robin"),
                    errdetail("The jobs of all queues wait meanwhile, and the role was granted certain ones."),
                    errhint("An operator of all queues may do it.")));
}

QueueSettings settings_arguments(FunctionCallInfo fcinfo) {
    if (given(fcinfo, 1)) check_positive(PG_GETARG_INT32(1), "max_attempts");
    if (given(fcinfo, 2)) check_span(PG_GETARG_INTERVAL_P(2), "backoff_base", Zero::Allowed);
    if (given(fcinfo, 3)) check_span(PG_GETARG_INTERVAL_P(3), "backoff_max", Zero::Allowed);
    if (given(fcinfo, 4)) check_heartbeat_timeout(PG_GETARG_INTERVAL_P(4));
    if (given(fcinfo, 5)) check_positive(PG_GETARG_INT32(5), "max_lost");
    if (given(fcinfo, 6)) check_span(PG_GETARG_INTERVAL_P(6), "keep_completed", Zero::Allowed);
    if (given(fcinfo, 7)) check_span(PG_GETARG_INTERVAL_P(7), "keep_failed", Zero::Allowed);
    if (given(fcinfo, 8)) check_max_depth(PG_GETARG_INT32(8));
    if (given(fcinfo, 9)) check_on_full(PG_GETARG_TEXT_PP(9));
    if (given(fcinfo, 10)) check_dead_letter_queue(fcinfo, view(PG_GETARG_TEXT_PP(0)), view(PG_GETARG_TEXT_PP(10)));
    if (given(fcinfo, 11)) check_queue_max_runtime(PG_GETARG_INTERVAL_P(11));
    if (given(fcinfo, 12)) check_on_max_runtime(PG_GETARG_TEXT_PP(12));
    if (given(fcinfo, 13)) check_priority_ageing(PG_GETARG_INTERVAL_P(13));
    if (given(fcinfo, 14)) check_round_robin(fcinfo, PG_GETARG_BOOL(14));
    QueueSettings found = {};
    for (int i = 0; i < kQueueSettings; i++) {
        found.given[i] = given(fcinfo, i + 1);
        if (found.given[i]) found.values[i] = PG_GETARG_DATUM(i + 1);
    }
    return found;
}

Datum set_paused_argument(FunctionCallInfo fcinfo, bool paused) {
    text *queue = queue_argument(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        require_known_queue(view(queue));
        warn_of_unknown_queue(view(queue), scope);
        return set_paused(queue, paused);
    }));
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_create_queue);
PGDLLEXPORT Datum jobq_create_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    const QueueSettings found = settings_arguments(fcinfo);
    if (!with_owner_spi([&] {
            const bool created = create_queue(queue, found);
            if (created) refuse_unkept_dead_letters(queue, found);
            return created;
        }))
        ereport(ERROR,
                (errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("queue \"%s\" has settings already", text_to_cstring(queue)),
                 errhint("Change them with jobq_alter_queue().")));
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_alter_queue);
PGDLLEXPORT Datum jobq_alter_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    const QueueSettings found = settings_arguments(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    with_owner_spi([&] {
        require_known_queue(view(queue));
        warn_of_mistyped_queue(view(queue), scope);
        alter_queue(queue, found);
        refuse_unkept_dead_letters(queue, found);
    });
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_drop_queue);
PGDLLEXPORT Datum jobq_drop_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    require(fcinfo, 1, "force");
    const bool force = PG_GETARG_BOOL(1);
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        // The jobs that are judged are the jobs that are deleted: they are locked in between.
        const Rows jobs = lock_queue(queue);
        auto *ids = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (jobs.size() + 1), MCXT_ALLOC_HUGE));
        for (uint64 i = 0; i < jobs.size(); i++) {
            ids[i] = jobs[i].get(1);
            if (!force && !jobs[i].bool_at(2))
                ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                                errmsg("queue \"%s\" has jobs that are not finished", text_to_cstring(queue)),
                                errhint("Cancel them with jobq_cancel_jobs(), or drop the queue with force => true.")));
            if (!force && jobs[i].bool_at(3))
                ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                                errmsg("queue \"%s\" has dead letters", text_to_cstring(queue)),
                                errhint("Bring them back with jobq_redrive(), delete them with jobq_delete_jobs(), or "
                                        "drop the queue with force => true.")));
        }
        const bool forgotten = forget_queue(queue, array_of(ids, static_cast<int>(jobs.size()), INT8OID));
        if (!forgotten) warn_of_unknown_queue(view(queue), scope);
        return forgotten;
    }));
}

PG_FUNCTION_INFO_V1(jobq_pause_queue);
PGDLLEXPORT Datum jobq_pause_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return set_paused_argument(fcinfo, true);
}

PG_FUNCTION_INFO_V1(jobq_resume_queue);
PGDLLEXPORT Datum jobq_resume_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return set_paused_argument(fcinfo, false);
}

PG_FUNCTION_INFO_V1(jobq_purge_queue);
PGDLLEXPORT Datum jobq_purge_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    Datum names[core::kJobStatusCount];
    int count = 0;
    bool wanted[core::kJobStatusCount];
    read_statuses(fcinfo, 1, Operation::Delete, operation_applies, wanted);
    for (int i = 0; i < core::kJobStatusCount; i++)
        if (wanted[i]) names[count++] = CStringGetTextDatum(core::status_name(static_cast<core::JobStatus>(i)));
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_INT64(with_owner_spi([&] {
        require_known_queue(view(queue));
        const int64 purged = purge_queue(queue, array_of(names, count, TEXTOID));
        if (purged == 0) warn_of_unknown_queue(view(queue), scope);
        return purged;
    }));
}

PG_FUNCTION_INFO_V1(jobq_queue_defaults);
PGDLLEXPORT Datum jobq_queue_defaults(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    // '14 days', not '336:00:00'.
    const auto span = [](core::Micros micros) {
        return DirectFunctionCall1(interval_justify_hours, IntervalPGetDatum(make_interval(micros)));
    };
    results.row({Int32GetDatum(core::kDefaultMaxAttempts), span(core::kDefaultBackoffBase),
                 span(core::kDefaultBackoffMax), span(core::kDefaultHeartbeatTimeout),
                 Int32GetDatum(core::kDefaultMaxLost), span(core::kDefaultKeepCompleted),
                 span(core::kDefaultKeepFailed)});
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_tracked_lanes);
PGDLLEXPORT Datum jobq_tracked_lanes(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    auto *held = static_cast<TrackedLane *>(palloc(sizeof(TrackedLane) * Max(max_tracked_lanes(), 1)));
    const int count = tracked_lanes(trigger_epoch(), held, max_tracked_lanes());
    for (const TrackedLane *lane = held; lane < held + count; lane++) {
        const bool anywhere = lane->first == core::kFirstKey;
        const bool nowhere = lane->first == core::kLastKey;
        const bool unknown = anywhere || nowhere;
        const Datum values[] = {Int64GetDatum(lane->lane),
                                Int16GetDatum(lane->first.priority),
                                TimestampTzGetDatum(lane->first.run_at),
                                Int64GetDatum(lane->first.id),
                                BoolGetDatum(nowhere),
                                Int32GetDatum(lane->ranges),
                                TimestampTzGetDatum(lane->refreshed_at)};
        const bool nulls[] = {false, unknown, unknown, unknown, false, false, false};
        results.row(values, nulls);
    }
    return results.done();
}

}  // extern "C"

}  // namespace jobq
