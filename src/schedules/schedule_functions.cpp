// The SQL functions for schedules. They check their arguments and call functions in the other files of this directory.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/result_set.h"
#include "queues/known_queues.h"
#include "row/owner.h"
#include "schedules/firing.h"
#include "schedules/schedule_arguments.h"
#include "schedules/schedule_settings.h"
#include "schedules/zones.h"

#include <algorithm>

namespace jobq {

namespace {

constexpr int kMaxRuns = 10000;

core::Timing timing_of_runs(FunctionCallInfo fcinfo, int expression, int timezone, TimestampTz after) {
    ScheduleSpec spec = {};
    spec.cron = require_text(fcinfo, expression, "cron");
    spec.timezone = require_text(fcinfo, timezone, "timezone");
    return timing_of(spec, after);
}

void warn_of_unknown_schedule(const text *name) {
    ereport(NOTICE, (errmsg("schedule \"%s\" does not exist", text_to_cstring(name)),
                     errhint("Query the view jobq.schedules to list the existing schedules.")));
}

// Locks the schedule whose name is the first argument of the call, and then returns the result of body(). If no
// schedule with this name is in the caller's scope, sends a notice and returns false.
template <typename Body>
bool with_schedule(FunctionCallInfo fcinfo, Body body) {
    require_writable(fcinfo);
    text *name = name_argument(fcinfo, 0);
    const QueueScope *scope = scope_of(fcinfo);
    return with_owner_spi([&] {
        Schedule schedule;
        if (lock_schedule(name, scope, &schedule)) return body(schedule);
        warn_of_unknown_schedule(name);
        return false;
    });
}

[[noreturn]] void specs_not_objects() {
    ereport(
        ERROR,
        (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"specs\" must be a JSON array of objects"),
         errhint(
             "Use an array such as '[{\"name\": \"nightly\", \"cron\": \"0 3 * * *\", \"queue\": \"reports\"}]'.")));
    pg_unreachable();
}

// Error context callback that adds the number of the element in the array.
void add_element_context(void *number) {
    const int element = *static_cast<int *>(number);
    if (element > 0) errcontext("element %d of argument \"specs\"", element);
}

struct Element {
    ScheduleSpec spec;
    int number;  // position in the array, starting at 1
    Scheduled scheduled;
};

Element *read_elements(Jsonb *specs, text *source, const QueueScope *scope, TimestampTz now, int *number) {
    auto *elements = allocate_array<Element>(JB_ROOT_COUNT(specs));
    JsonbIterator *iterator = JsonbIteratorInit(&specs->root);
    JsonbValue element;
    JsonbIteratorNext(&iterator, &element, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM) {
        CHECK_FOR_INTERRUPTS();
        ++*number;
        if (element.type != jbvBinary || !JsonContainerIsObject(element.val.binary.data)) specs_not_objects();
        elements[*number - 1] = {schedule_of_object(element.val.binary.data, source, scope, now), *number, {}};
    }
    return elements;
}

Datum names_of(const Element *elements, int count) {
    auto *names = allocate_array<Datum>(static_cast<uint64>(count));
    for (int i = 0; i < count; i++) names[i] = PointerGetDatum(elements[i].spec.name);
    return array_of(names, count, TEXTOID);
}

// Creates or changes the schedules in the order of their names. All sessions use this order to avoid deadlocks.
void put_elements(Element *elements, int count, const QueueScope *scope, TimestampTz now, int *number) {
    auto *order = allocate_array<int>(static_cast<uint64>(count));
    for (int i = 0; i < count; i++) order[i] = i;
    const auto name_of = [&](int i) { return view(elements[i].spec.name); };
    std::sort(order, order + count,
              [&](int a, int b) { return name_of(a) != name_of(b) ? name_of(a) < name_of(b) : a < b; });
    for (int i = 0; i < count; i++) {
        Element *element = elements + order[i];
        *number = element->number;
        if (i > 0 && name_of(order[i - 1]) == name_of(order[i]))
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("argument \"specs\" contains schedule \"%s\" more than once",
                                   text_to_cstring(element->spec.name)),
                            errhint("Specify a unique name for each schedule.")));
        element->scheduled = put_schedule(element->spec, scope, now);
    }
    *number = 0;
}

void return_change(ResultSet *results, const text *name, const char *change, const core::OptInt64 &next_run) {
    const Datum values[] = {PointerGetDatum(name), CStringGetTextDatum(change),
                            TimestampTzGetDatum(next_run.value_or(0))};
    const bool nulls[] = {false, false, !next_run.has_value()};
    results->row(values, nulls);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_schedule);
PGDLLEXPORT Datum jobq_schedule(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const TimestampTz now = GetCurrentTimestamp();
    const QueueScope *scope = scope_of(fcinfo);
    const ScheduleSpec spec = schedule_of_arguments(fcinfo, scope, now);
    const Scheduled scheduled = with_owner_spi([&] {
        warn_of_mistyped_queue(view(spec.queue), scope);
        return put_schedule(spec, scope, now);
    });
    if (!scheduled.next_run) PG_RETURN_NULL();
    PG_RETURN_TIMESTAMPTZ(*scheduled.next_run);
}

PG_FUNCTION_INFO_V1(jobq_schedules);
PGDLLEXPORT Datum jobq_schedules(PG_FUNCTION_ARGS) {
    enum { Specs, Prune, Source };
    constexpr const char *changes[] = {"unchanged", "created", "changed"};
    require_writable(fcinfo);
    require(fcinfo, Specs, "specs");
    require(fcinfo, Prune, "prune");
    text *source = require_text(fcinfo, Source, "source");
    check_source(view(source));
    Jsonb *specs = PG_GETARG_JSONB_P(Specs);
    if (!JB_ROOT_IS_ARRAY(specs) || JB_ROOT_IS_SCALAR(specs)) specs_not_objects();
    const int count = static_cast<int>(JB_ROOT_COUNT(specs));
    if (count > core::kMaxBatch)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("argument \"specs\" has too many elements: %d", count),
                 errhint("At most %d elements are allowed in one call.", core::kMaxBatch)));
    const bool prune = PG_GETARG_BOOL(Prune);
    const TimestampTz now = GetCurrentTimestamp();
    const QueueScope *scope = scope_of(fcinfo);

    ResultSet results(fcinfo);
    int number = 0;
    ErrorContextCallback context = {error_context_stack, add_element_context, &number};
    error_context_stack = &context;
    Element *elements = read_elements(specs, source, scope, now, &number);
    number = 0;
    with_owner_spi([&] {
        const Datum names = names_of(elements, count);
        wait_for_other_sets(scope);
        lock_set(source, names, prune, scope);
        put_elements(elements, count, scope, now, &number);
        for (int i = 0; i < count; i++) {
            const Scheduled &scheduled = elements[i].scheduled;
            return_change(&results, elements[i].spec.name, changes[static_cast<int>(scheduled.change)],
                          scheduled.next_run);
        }
        if (!prune) return;
        const Rows removed = remove_others_of(source, names, scope);
        for (uint64 i = 0; i < removed.size(); i++)
            return_change(&results, DatumGetTextPP(removed[i].get(1)), "pruned", {});
    });
    error_context_stack = context.previous;
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_unschedule);
PGDLLEXPORT Datum jobq_unschedule(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(with_schedule(fcinfo, [](const Schedule &schedule) {
        remove_schedule(schedule.spec.name);
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_pause_schedule);
PGDLLEXPORT Datum jobq_pause_schedule(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(with_schedule(fcinfo, [](const Schedule &schedule) {
        if (*schedule.spec.paused) return false;
        pause_schedule(schedule.spec.name);
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_resume_schedule);
PGDLLEXPORT Datum jobq_resume_schedule(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(with_schedule(fcinfo, [](const Schedule &schedule) {
        if (!*schedule.spec.paused) return false;
        resume_schedule(schedule, GetCurrentTimestamp());
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_run_schedule);
PGDLLEXPORT Datum jobq_run_schedule(PG_FUNCTION_ARGS) {
    core::OptInt64 job;
    const bool found = with_schedule(fcinfo, [&](const Schedule &schedule) {
        job = fire_now(schedule, GetCurrentTimestamp());
        return true;
    });
    if (!found || !job) PG_RETURN_NULL();
    PG_RETURN_INT64(*job);
}

PG_FUNCTION_INFO_V1(jobq_next_runs);
PGDLLEXPORT Datum jobq_next_runs(PG_FUNCTION_ARGS) {
    enum { Expression, Timezone, After, Count };
    require(fcinfo, Expression, "cron");
    require(fcinfo, Timezone, "timezone");
    TimestampTz after = given(fcinfo, After) ? check_moment(PG_GETARG_TIMESTAMPTZ(After), "after")
                                             : GetCurrentStatementStartTimestamp();
    const core::Timing timing = timing_of_runs(fcinfo, Expression, Timezone, after);
    require(fcinfo, Count, "n");
    const int32 count = check_positive(PG_GETARG_INT32(Count), "n");
    if (count > kMaxRuns)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"n\" is too large: %d", count),
                        errhint("At most %d runs can be requested.", kMaxRuns)));

    ResultSet results(fcinfo);
    for (int32 i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        after = core::run_after(timing, after);
        if (after == core::kNoMoment) break;
        results.row({TimestampTzGetDatum(after)});
    }
    return results.done();
}

}  // extern "C"

}  // namespace jobq
