// The SQL functions that set limits, and the functions that the views jobq.limits and jobq.named_limits call.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "core/lane.h"
#include "core/limit.h"
#include "limits/limit_settings.h"
#include "limits/limit_state.h"
#include "limits/limiter.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "queues/known_queues.h"
#include "row/numbers.h"
#include "row/owner.h"
#include "shmem/memory.h"

namespace jobq {

namespace {

constexpr core::Micros kLongestPer = 365 * core::kDay;

int32 checked_max_running(int32 value) {
    if (value < 0 || value > core::kMaxRunning)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"max_running\" must be between 0 and %d, not %d", core::kMaxRunning, value),
                        errhint("Specify 0 to stop claims, or NULL to let any number of jobs run.")));
    return value;
}

int32 checked_rate(int32 value) {
    if (value < 1)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"rate\" must be at least 1, not %d", value),
                        errhint("Omit the argument to set no rate. To stop claims, set \"max_running\" to 0.")));
    return value;
}

Interval *checked_per(Interval *per, int32 rate) {
    const core::Micros span = check_span(per, "per", Zero::Refused);
    if (span > kLongestPer)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"per\" must be at most 365 days"),
                        errhint("Use an interval such as '1 minute'.")));
    if (core::make_rate(rate, span).interval == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"rate\" is too high for argument \"per\": %d", rate),
                        errhint("Specify a rate of at most one job per microsecond.")));
    return per;
}

LimitValues limit_arguments(FunctionCallInfo fcinfo) {
    enum { MaxRunning = 2, RateOf, Per };
    LimitValues values = {};
    values.has_max_running = given(fcinfo, MaxRunning);
    values.has_rate = given(fcinfo, RateOf);
    if (values.has_max_running) values.max_running = checked_max_running(PG_GETARG_INT32(MaxRunning));
    if (values.has_rate) {
        values.rate = checked_rate(PG_GETARG_INT32(RateOf));
        values.per =
            checked_per(given(fcinfo, Per) ? PG_GETARG_INTERVAL_P(Per) : make_interval(core::kSecond), values.rate);
        if (!shared_memory_ready())
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("argument \"rate\" requires the jobq library to be preloaded"),
                            errhint("Add jobq to \"shared_preload_libraries\" and restart the server.")));
    } else if (given(fcinfo, Per)) {
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"per\" requires argument \"rate\""),
                        errhint("Specify \"rate\" or omit \"per\".")));
    }
    return values;
}

// Returns the limit that the arguments name. The arguments with the numbers `key` and `kind` are optional.
LimitName limit_of_arguments(FunctionCallInfo fcinfo, text *queue, int key, int kind) {
    if (given(fcinfo, kind)) return {queue, SlotOf::Kind, PG_GETARG_TEXT_PP(kind)};
    if (given(fcinfo, key)) return {queue, SlotOf::Key, PG_GETARG_TEXT_PP(key)};
    return {queue, SlotOf::Queue, make_text("")};
}

void check_limit_name(const LimitName &limit) {
    if (limit.of == SlotOf::Key) check_name(view(limit.name), "key", core::kMaxConcurrencyKeyBytes, false);
    if (limit.of == SlotOf::Kind) check_name(view(limit.name), "kind", core::kMaxKindBytes, true);
}

text *limit_name_argument(FunctionCallInfo fcinfo) {
    text *name = require_text(fcinfo, 0, "name");
    check_name(view(name), "name", core::kMaxLimitNameBytes, false);
    return name;
}

// Returns the queues in argument "queues", sorted and without duplicates. Raises 42501 if a queue is out of scope.
Names member_queues(FunctionCallInfo fcinfo, const QueueScope *scope) {
    require(fcinfo, 1, "queues");
    Names queues = names_of(PG_GETARG_ARRAYTYPE_P(1), "queues", core::kMaxQueueBytes, core::kMaxQueuesOfLimit);
    for (int i = 0; i < queues.count; i++) check_queue_name(queues.items[i], {"queues", i + 1});
    queues.count = core::canonical_set(queues.items, queues.count);
    for (int i = 0; i < queues.count; i++) check_scope(scope, queues.items[i]);
    if (queues.count > 0) return queues;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"queues\" must name at least one queue"),
             errhint("Use jobq_drop_named_limit() to remove the limit.")));
    pg_unreachable();
}

void return_tokens(ResultSet *results, int64 limit, int64 bucket, int rate_argument, FunctionCallInfo fcinfo) {
    const core::Rate rate = core::make_rate(PG_GETARG_INT32(rate_argument),
                                            check_span(PG_GETARG_INTERVAL_P(rate_argument + 1), "per", Zero::Refused));
    if (rate.interval == 0) return;
    TimestampTz due;
    const int32 tokens = peek_tokens(limit, bucket, rate, GetCurrentTimestamp(), &due);
    const Datum values[] = {Int32GetDatum(tokens), TimestampTzGetDatum(due)};
    const bool nulls[] = {false, tokens > 0};
    results->row(values, nulls);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_set_limit);
PGDLLEXPORT Datum jobq_set_limit(PG_FUNCTION_ARGS) {
    enum { Key = 1, Kind = 5 };
    require_writable(fcinfo);
    text *queue = granted_queue(fcinfo, 0, "queue");
    if (given(fcinfo, Key) && given(fcinfo, Kind))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"key\" cannot be combined with argument \"kind\""),
                        errhint("Call jobq_set_limit() once for the key and once for the kind.")));
    const LimitName limit = limit_of_arguments(fcinfo, queue, Key, Kind);
    check_limit_name(limit);
    const LimitValues values = limit_arguments(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        require_known_queue(view(queue));
        if (!values.has_max_running && !values.has_rate) {
            warn_of_unknown_queue(view(queue), scope);
            return remove_limit(limit);
        }
        warn_of_mistyped_queue(view(queue), scope);
        set_limit(limit, values);
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_limit_running);
PGDLLEXPORT Datum jobq_limit_running(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    PG_RETURN_INT64(with_spi([&] { return running_under(limit_of_arguments(fcinfo, PG_GETARG_TEXT_PP(0), 1, 2)); }));
}

PG_FUNCTION_INFO_V1(jobq_limit_tokens);
PGDLLEXPORT Datum jobq_limit_tokens(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    if (!shared_memory_ready() || PG_ARGISNULL(0) || PG_ARGISNULL(2) || PG_ARGISNULL(3)) return results.done();
    const std::string_view queue = view(PG_GETARG_TEXT_PP(0));
    const LimitName name = limit_of_arguments(fcinfo, PG_GETARG_TEXT_PP(0), 1, 4);
    return_tokens(&results, limit_id(name.of, queue, view(name.name)), queue_limit_id(queue), 2, fcinfo);
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_set_named_limit);
PGDLLEXPORT Datum jobq_set_named_limit(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *name = limit_name_argument(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    const Names queues = member_queues(fcinfo, scope);
    const LimitValues values = limit_arguments(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        for (int i = 0; i < queues.count; i++) require_known_queue(queues.items[i]);
        if (!values.has_max_running && !values.has_rate) return remove_named_limit(name, scope);
        for (int i = 0; i < queues.count; i++) warn_of_mistyped_queue(queues.items[i], scope);
        set_named_limit(name, queues, values, scope);
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_drop_named_limit);
PGDLLEXPORT Datum jobq_drop_named_limit(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *name = limit_name_argument(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    const bool removed = with_owner_spi([&] { return remove_named_limit(name, scope); });
    if (!removed)
        ereport(NOTICE, (errmsg("named limit \"%s\" does not exist", text_to_cstring(name)),
                         errhint("Query the view jobq.named_limits to list the existing limits.")));
    PG_RETURN_BOOL(removed);
}

PG_FUNCTION_INFO_V1(jobq_named_limit_running);
PGDLLEXPORT Datum jobq_named_limit_running(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    PG_RETURN_INT64(with_spi([&] { return running_under({make_text(""), SlotOf::Named1, PG_GETARG_TEXT_PP(0)}); }));
}

PG_FUNCTION_INFO_V1(jobq_named_limit_tokens);
PGDLLEXPORT Datum jobq_named_limit_tokens(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    if (!shared_memory_ready() || PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2)) return results.done();
    const int64 limit = named_limit_id(view(PG_GETARG_TEXT_PP(0)));
    return_tokens(&results, limit, limit, 1, fcinfo);
    return results.done();
}

}  // extern "C"

}  // namespace jobq
