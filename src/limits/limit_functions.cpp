// The SQL function jobq_set_limit, and the functions that the view jobq.limits calls.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "core/limit.h"
#include "limits/limit_settings.h"
#include "limits/limit_state.h"
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

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_set_limit);
PGDLLEXPORT Datum jobq_set_limit(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = granted_queue(fcinfo, 0, "queue");
    text *key = given(fcinfo, 1) ? PG_GETARG_TEXT_PP(1) : make_text("");
    if (given(fcinfo, 1)) check_name(view(key), "key", core::kMaxConcurrencyKeyBytes, false);
    const LimitValues values = limit_arguments(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        require_known_queue(view(queue));
        if (!values.has_max_running && !values.has_rate) {
            warn_of_unknown_queue(view(queue), scope);
            return remove_limit(queue, key);
        }
        warn_of_mistyped_queue(view(queue), scope);
        set_limit(queue, key, values);
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_limit_running);
PGDLLEXPORT Datum jobq_limit_running(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    text *key = given(fcinfo, 1) ? PG_GETARG_TEXT_PP(1) : nullptr;
    PG_RETURN_INT64(with_spi([&] { return running_under(PG_GETARG_TEXT_PP(0), key); }));
}

PG_FUNCTION_INFO_V1(jobq_limit_tokens);
PGDLLEXPORT Datum jobq_limit_tokens(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    if (!shared_memory_ready() || PG_ARGISNULL(0) || PG_ARGISNULL(2) || PG_ARGISNULL(3)) return results.done();
    const std::string_view queue = view(PG_GETARG_TEXT_PP(0));
    const core::Rate rate =
        core::make_rate(PG_GETARG_INT32(2), check_span(PG_GETARG_INTERVAL_P(3), "per", Zero::Refused));
    if (rate.interval == 0) return results.done();
    const int64 limit = PG_ARGISNULL(1) ? queue_limit_id(queue) : key_limit_id(queue, view(PG_GETARG_TEXT_PP(1)));
    TimestampTz due;
    const TimestampTz now = GetCurrentTimestamp();
    const int32 tokens = peek_tokens(limit, queue_limit_id(queue), rate, now, &due);
    const Datum values[] = {Int32GetDatum(tokens), TimestampTzGetDatum(due)};
    const bool nulls[] = {false, tokens > 0};
    results.row(values, nulls);
    return results.done();
}

}  // extern "C"

}  // namespace jobq
