// See schedule_arguments.h. Function arguments and JSON keys share one table of arguments.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/json_keys.h"
#include "enqueue/enqueue_specs.h"
#include "enqueue/specs.h"
#include "row/payload.h"
#include "schedules/schedule_arguments.h"

namespace jobq {

namespace {

// The parameters of jobq_schedule, in the order of its declaration.
enum Argument {
    kName,
    kCron,
    kQueue,
    kPayload,
    kKind,
    kTimezone,
    kMissed,
    kMaxMissed,
    kOverlap,
    kDeadline,
    kJitter,
    kStartsAt,
    kEndsAt,
    kPaused,
    kSource,
    kOptions,
    kArgumentCount
};

struct ArgumentInfo {
    const char *name;
    Oid type;
    bool may_be_null;
    const char *otherwise;  // default for an object without this key; nullptr means NULL
};
constexpr ArgumentInfo kArguments[kArgumentCount] = {
    {"name", TEXTOID, false, nullptr},
    {"cron", TEXTOID, false, nullptr},
    {"queue", TEXTOID, false, nullptr},
    {"payload", JSONBOID, false, "{}"},
    {"kind", TEXTOID, false, ""},
    {"timezone", TEXTOID, false, "UTC"},
    {"missed", TEXTOID, false, "once"},
    {"max_missed", INT4OID, false, "100"},
    {"overlap", TEXTOID, false, "allow"},
    {"deadline", INTERVALOID, true, nullptr},
    {"jitter", INTERVALOID, true, nullptr},
    {"starts_at", TIMESTAMPTZOID, true, nullptr},
    {"ends_at", TIMESTAMPTZOID, true, nullptr},
    {"paused", BOOLOID, true, nullptr},
    {"source", TEXTOID, false, ""},
    {"options", JSONBOID, false, "{}"},
};

struct Values {
    Datum values[kArgumentCount];
    bool nulls[kArgumentCount];

    bool has(Argument n) const { return !nulls[n]; }
    text *text_at(Argument n) const { return DatumGetTextPP(values[n]); }
    Interval *interval_at(Argument n) const { return nulls[n] ? nullptr : DatumGetIntervalP(values[n]); }
};

void check_max_missed(int32 value) {
    if (value >= 1 && value <= core::kMaxMissed) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"max_missed\" must be between 1 and %d, not %d", core::kMaxMissed, value),
                    errhint("Specify how many missed runs can fire if \"missed\" is 'all'.")));
}

void check_jitter(const Interval *jitter) {
    constexpr core::Micros longest = 365 * core::kDay;
    if (jitter == nullptr || check_span(jitter, "jitter", Zero::Allowed) <= longest) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"jitter\" must be at most 365 days"),
                    errhint("Use an interval such as '30 seconds'.")));
}

core::OptInt64 moment_at(const Values &values, Argument n) {
    if (!values.has(n)) return {};
    return check_finite(DatumGetTimestampTz(values.values[n]), kArguments[n].name);
}

void check_bounds(const ScheduleSpec &spec) {
    if (!spec.starts_at || !spec.ends_at || *spec.starts_at <= *spec.ends_at) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"ends_at\" must not be earlier than argument \"starts_at\""),
                    errhint("Specify a later \"ends_at\" or an earlier \"starts_at\".")));
}

void check_options(Datum options) {
    check_json_size(options, "options");
    require_object(DatumGetJsonbP(options), "options",
                   "Use an object such as '{\"priority\": -10, \"max_attempts\": 3}'.");
}

// Checks that the expression fires at some time, regardless of starts_at and ends_at.
void check_fires(const ScheduleSpec &spec, TimestampTz now) {
    ScheduleSpec unbounded = spec;
    unbounded.starts_at = unbounded.ends_at = {};
    if (core::run_after(timing_of(unbounded, now), now) != core::kNoMoment) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"cron\" does not match any time in the future"),
                    errhint("Use jobq_next_runs() to list the runs of an expression.")));
}

ScheduleSpec checked_spec(const Values &values, const QueueScope *scope, TimestampTz now) {
    for (int n = 0; n < kArgumentCount; n++)
        if (values.nulls[n] && !kArguments[n].may_be_null) null_argument(kArguments[n].name);
    ScheduleSpec spec = {};
    spec.name = values.text_at(kName);
    check_name(view(spec.name), "name", kMaxScheduleNameBytes, false);
    spec.queue = values.text_at(kQueue);
    check_queue_name(view(spec.queue), "queue");
    check_scope(scope, view(spec.queue));
    spec.cron = values.text_at(kCron);
    spec.timezone = values.text_at(kTimezone);
    spec.payload = values.values[kPayload];
    check_json_size(spec.payload, "payload");
    spec.kind = values.text_at(kKind);
    spec.missed = values.text_at(kMissed);
    require_choice<core::Missed>("missed", view(spec.missed), core::kMissedNames);
    spec.overlap = values.text_at(kOverlap);
    require_choice<core::Overlap>("overlap", view(spec.overlap), core::kOverlapNames);
    spec.max_missed = DatumGetInt32(values.values[kMaxMissed]);
    check_max_missed(spec.max_missed);
    spec.deadline = values.interval_at(kDeadline);
    if (spec.deadline != nullptr) check_span(spec.deadline, "deadline", Zero::Refused);
    spec.jitter = values.interval_at(kJitter);
    check_jitter(spec.jitter);
    spec.starts_at = moment_at(values, kStartsAt);
    if (spec.starts_at) check_moment(*spec.starts_at, "starts_at");
    spec.ends_at = moment_at(values, kEndsAt);
    check_bounds(spec);
    if (values.has(kPaused)) spec.paused = DatumGetBool(values.values[kPaused]);
    spec.source = values.text_at(kSource);
    check_source(view(spec.source));
    spec.options = values.values[kOptions];
    check_options(spec.options);
    check_fires(spec, now);
    // Raises the errors that jobq_enqueue would raise for the jobs of the schedule.
    job_of_run(spec, now, scope);
    JobSpec job = {};
    job.queue = spec.queue;
    read_options(DatumGetJsonbP(spec.options), KeysOf::Schedule, &job);
    require_limits(job);
    return spec;
}

Datum input_of(Oid type, const char *value) {
    Oid input, parameter;
    getTypeInputInfo(type, &input, &parameter);
    return OidInputFunctionCall(input, const_cast<char *>(value), parameter, -1);
}

Datum value_of(const ArgumentInfo &argument, const JsonbValue &value) {
    switch (argument.type) {
        case JSONBOID:
            return PointerGetDatum(JsonbValueToJsonb(const_cast<JsonbValue *>(&value)));
        case BOOLOID:
            if (value.type != jbvBool) wrong_json_type(argument.name, "true or false");
            return BoolGetDatum(value.val.boolean);
        case INT4OID:
            if (value.type != jbvNumeric) wrong_json_type(argument.name, "a number");
            return input_of(INT4OID, digits_of(value));
        default:
            break;
    }
    return input_of(argument.type, text_to_cstring(text_of_key(argument.name, value)));
}

// Returns the number of the argument with this name. `source` is not a valid key, because the call has one source for
// all objects.
int argument_of_key(std::string_view key) {
    const auto is_key = [](int n) { return n != kSource; };
    for (int n = 0; n < kArgumentCount; n++)
        if (is_key(n) && key == kArguments[n].name) return n;
    UnknownKey unknown(key);
    for (int n = 0; n < kArgumentCount; n++)
        if (is_key(n)) unknown.add_known(kArguments[n].name);
    unknown.refuse("specs");
}

void read_key(const JsonKey &key, Values *values) {
    const int n = argument_of_key(key.name);
    // A JSON null counts as absent, except that it is a valid payload.
    if (key.value.type == jbvNull && n != kPayload) return;
    with_key_context(kArguments[n].name, [&] { values->values[n] = value_of(kArguments[n], key.value); });
    values->nulls[n] = false;
}

}  // namespace

text *name_argument(FunctionCallInfo fcinfo, int n) {
    text *name = require_text(fcinfo, n, "name");
    check_name(view(name), "name", kMaxScheduleNameBytes, false);
    return name;
}

void check_source(std::string_view source) { check_name(source, "source", kMaxScheduleNameBytes, true); }

ScheduleSpec schedule_of_arguments(FunctionCallInfo fcinfo, const QueueScope *scope, TimestampTz now) {
    Values values = {};
    for (int n = 0; n < kArgumentCount; n++) {
        values.nulls[n] = PG_ARGISNULL(n);
        values.values[n] = PG_GETARG_DATUM(n);
    }
    return checked_spec(values, scope, now);
}

ScheduleSpec schedule_of_object(JsonbContainer *object, text *source, const QueueScope *scope, TimestampTz now) {
    Values values = {};
    for (int n = 0; n < kArgumentCount; n++) {
        const char *otherwise = kArguments[n].otherwise;
        values.nulls[n] = otherwise == nullptr;
        if (otherwise != nullptr) values.values[n] = input_of(kArguments[n].type, otherwise);
    }
    values.values[kSource] = PointerGetDatum(source);
    for_each_key(object, [&](const JsonKey &key) { read_key(key, &values); });
    return checked_spec(values, scope, now);
}

}  // namespace jobq
