// The trigger on jobq.schedule_settings, which handles the consequences of a plain INSERT, COPY, or UPDATE.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/subtransaction.h"
#include "log/transaction_log.h"
#include "schedules/schedule.h"
#include "triggers/trigger.h"

namespace jobq {

namespace {

// The row for which the trigger was called, with the trigger's changes.
struct ScheduleRow {
    const TriggerData *trigger;
    HeapTuple row;

    core::OptInt64 moment(const char *name) const {
        bool null;
        const Datum value = value_in(trigger, row, name, &null);
        if (null) return {};
        return DatumGetInt64(value);
    }
    text *text_at(const char *name) const {
        bool null;
        const Datum value = value_in(trigger, row, name, &null);
        return null ? make_text("") : DatumGetTextPP(value);
    }
    bool flag(const char *name) const {
        bool null;
        const Datum value = value_in(trigger, row, name, &null);
        return !null && DatumGetBool(value);
    }
    void put(const char *name, bool null, Datum value) {
        int number = column_of(trigger, name);
        row = heap_modify_tuple_by_cols(row, RelationGetDescr(trigger->tg_relation), 1, &number, &value, &null);
    }
    void put_moment(const char *name, const core::OptInt64 &moment) {
        put(name, !moment.has_value(), TimestampTzGetDatum(moment.value_or(0)));
    }
};

bool same_texts(const ScheduleRow &a, const ScheduleRow &b, const char *column) {
    return view(a.text_at(column)) == view(b.text_at(column));
}

bool same_times(const ScheduleRow &a, const ScheduleRow &b) {
    return same_texts(a, b, "cron") && same_texts(a, b, "timezone") && a.moment("starts_at") == b.moment("starts_at") &&
           a.moment("ends_at") == b.moment("ends_at") && a.flag("paused") == b.flag("paused");
}

// Computes the next run after now. If this fails, accepts the row anyway, so that a restore does not fail because of a
// time zone that this server does not know. The duty reports the error until it can compute the next run.
void go_on_from_now(ScheduleRow *schedule) {
    ScheduleSpec spec = {};
    spec.cron = schedule->text_at("cron");
    spec.timezone = schedule->text_at("timezone");
    spec.starts_at = schedule->moment("starts_at");
    spec.ends_at = schedule->moment("ends_at");
    const TimestampTz now = GetCurrentTimestamp();
    core::OptInt64 next_run, due;
    FailureText failure;
    const auto compute = [&] {
        const core::Timing timing = timing_of(spec, schedule->moment("created_at").value_or(now));
        next_run = next_run_from(timing, schedule->moment("last_run"), now);
    };
    if (!schedule->flag("paused")) due = attempt(compute, &failure) ? next_run : core::OptInt64(now);
    schedule->put_moment("next_run", next_run);
    schedule->put_moment("_due_at", due);
    schedule->put("error", true, Datum(0));
    schedule->put("failures", false, Int32GetDatum(0));
}

void follow(ScheduleRow *schedule) {
    const TriggerData *trigger = schedule->trigger;
    if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)) {
        const ScheduleRow before = {trigger, trigger->tg_trigtuple};
        if (!same_times(before, *schedule))
            go_on_from_now(schedule);
        else if (before.moment("next_run") != schedule->moment("next_run"))
            schedule->put_moment("_due_at", schedule->flag("paused") ? core::OptInt64() : schedule->moment("next_run"));
    } else {
        go_on_from_now(schedule);
    }
    const core::OptInt64 due = schedule->moment("_due_at");
    if (due) log_due_schedule(*due);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_fill_schedule);
PGDLLEXPORT Datum jobq_fill_schedule(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = trigger_on(fcinfo, "schedule_settings", TriggerTiming::BeforeRow);
    ScheduleRow schedule = {trigger, row_after(trigger)};
    follow(&schedule);
    return PointerGetDatum(schedule.row);
}

}  // extern "C"

}  // namespace jobq
