// jobq_next_runs: arguments checked, the runs of an expression returned.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "schedules/calendar_policy.h"
#include "schedules/zones.h"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace jobq {

namespace {

constexpr int kMaxRuns = 10000;

core::Cron require_cron(FunctionCallInfo fcinfo, int n, const char *name) {
    core::Cron cron;
    core::CronError error = {};
    const std::string_view expression = view(require_text(fcinfo, n, name));
    if (core::parse_cron(expression, &cron, &error)) return cron;
    const bool whole = error.field == core::CronField::Expression;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("argument \"%s\"%s%s %s", name, whole ? "" : ": field ", whole ? "" : core::field_name(error.field),
                    error.problem),
             errdetail("At position %d of \"%.*s\".", error.position,
                       pg_mbcliplen(expression.data(), static_cast<int>(expression.size()), 100), expression.data()),
             errhint("Five fields: minute, hour, day of month, month, weekday; six: second in front of them. For "
                     "example '*/15 8-18 * * mon-fri', '@daily', '@every 90s'.")));
    pg_unreachable();
}

// The first run behind `after`; false: there is none.
bool run_behind(const core::Cron &cron, const core::Zone &zone, TimestampTz start, TimestampTz after,
                TimestampTz *run) {
    if (cron.every > 0) {
        *run = core::next_every(cron.every, start, after);
    } else {
        const int64 second = core::next_run(cron, zone, unix_seconds(after));
        if (second == core::kEndOfTime) return false;
        *run = timestamp_of(second);
    }
    return *run <= core::kLastMoment;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_next_runs);
PGDLLEXPORT Datum jobq_next_runs(PG_FUNCTION_ARGS) {
    enum { Expression, Timezone, After, Count };
    const core::Cron cron = require_cron(fcinfo, Expression, "cron");
    const core::Zone zone = find_zone(view(require_text(fcinfo, Timezone, "timezone")), "timezone");
    TimestampTz after = given(fcinfo, After) ? check_finite(PG_GETARG_TIMESTAMPTZ(After), "after")
                                             : GetCurrentStatementStartTimestamp();
    require(fcinfo, Count, "n");
    const int32 count = check_positive(PG_GETARG_INT32(Count), "n");
    if (count > kMaxRuns)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"n\" is too large: %d", count),
                        errhint("At most %d runs are returned.", kMaxRuns)));
    if (after != core::bounded_moment(after))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"after\" is out of range"),
                        errhint("Take a moment of the years 1 to 6000.")));

    ResultSet results(fcinfo);
    const TimestampTz start = after;
    for (int32 i = 0; i < count && run_behind(cron, zone, start, after, &after); i++) {
        CHECK_FOR_INTERRUPTS();
        results.row({TimestampTzGetDatum(after)});
    }
    return results.done();
}

}  // extern "C"

}  // namespace jobq
