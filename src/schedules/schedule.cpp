// See schedule.h.
#include "compat/pg.h"

#include "compat/json_object.h"
#include "core/choice.h"
#include "enqueue/enqueue_specs.h"
#include "enqueue/specs.h"
#include "schedules/schedule.h"
#include "schedules/zones.h"

extern "C" {
#include "utils/datetime.h"
}

namespace jobq {

namespace {

text *text_of(const Row &row, int column) { return DatumGetTextPP(row.get(column)); }
core::OptInt64 moment_of(const Row &row, int column) {
    if (row.is_null(column)) return {};
    return DatumGetInt64(row.get(column));
}
Interval *interval_of(const Row &row, int column) {
    return row.is_null(column) ? nullptr : DatumGetIntervalP(row.get(column));
}
// Returns the detoasted value, because a TOAST pointer of jobq.schedule_settings cannot be stored in jobq.jobs.
Datum json_of(const Row &row, int column) { return PointerGetDatum(PG_DETOAST_DATUM(row.get(column))); }

// Returns {"schedule": ..., "scheduled_for": ...}. The time is in UTC regardless of the session's time zone.
Datum run_metadata(const text *name, TimestampTz run) {
    const int utc = 0;
    JsonObject metadata;
    metadata.text_of("schedule", view(name));
    metadata.moment("scheduled_for", run, &utc);
    return metadata.made();
}

// Parses the expression in an argument. Raises 22023 with the field and the position if it is invalid.
core::Cron cron_of(const text *expression) {
    core::Cron cron;
    core::CronError error = {};
    const std::string_view words = view(expression);
    if (core::parse_cron(words, &cron, &error)) return cron;
    const bool whole = error.field == core::CronField::Expression;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("argument \"cron\" is not a valid cron expression: \"%.*s\"", shown_bytes(words), words.data()),
             whole ? errdetail("Position %d: %s", error.position, error.problem)
                   : errdetail("Field \"%s\", position %d: %s", core::field_name(error.field), error.position,
                               error.problem),
             errhint("Use five fields (minute, hour, day of month, month, and weekday), six fields that begin with "
                     "the second, or a shorthand, for example '*/15 8-18 * * mon-fri', '@daily', or '@every 90s'.")));
    pg_unreachable();
}

}  // namespace

Schedule schedule_of(const Row &row) {
    Schedule schedule = {};
    ScheduleSpec *spec = &schedule.spec;
    int column = 0;
    spec->name = text_of(row, ++column);
    spec->cron = text_of(row, ++column);
    spec->timezone = text_of(row, ++column);
    spec->queue = text_of(row, ++column);
    spec->kind = text_of(row, ++column);
    spec->payload = json_of(row, ++column);
    spec->options = json_of(row, ++column);
    spec->missed = text_of(row, ++column);
    spec->overlap = text_of(row, ++column);
    spec->max_missed = row.int32_at(++column);
    spec->deadline = interval_of(row, ++column);
    spec->jitter = interval_of(row, ++column);
    spec->starts_at = moment_of(row, ++column);
    spec->ends_at = moment_of(row, ++column);
    spec->paused = row.bool_at(++column);
    spec->source = text_of(row, ++column);
    schedule.created_at = DatumGetTimestampTz(row.get(++column));
    schedule.next_run = moment_of(row, ++column);
    schedule.last_run = moment_of(row, ++column);
    schedule.last_job = moment_of(row, ++column);
    schedule.failures = row.int32_at(++column);
    column++;
    if (!row.is_null(column)) schedule.unfinished = DatumGetArrayTypeP(row.get(column));
    return schedule;
}

core::Timing timing_of(const ScheduleSpec &spec, TimestampTz created_at) {
    core::Timing timing = {};
    timing.cron = cron_of(spec.cron);
    timing.zone = find_zone(view(spec.timezone));
    timing.every_from = core::bounded_moment(spec.starts_at.value_or(created_at));
    // The bounds can be infinite if the row was written with plain SQL.
    timing.starts_at = core::bounded_moment(spec.starts_at.value_or(-core::kNoMoment));
    timing.ends_at = core::bounded_moment(spec.ends_at.value_or(core::kNoMoment));
    return timing;
}

core::OptInt64 next_run_from(const core::Timing &timing, const core::OptInt64 &last_run, TimestampTz now) {
    const core::Micros next = core::run_after(timing, core::resume_after(now, last_run.value_or(now)));
    if (next == core::kNoMoment) return {};
    return next;
}

core::Missed missed_of(const ScheduleSpec &spec) {
    core::Missed missed = core::Missed::Once;
    core::parse_choice(core::kMissedNames, view(spec.missed), &missed);
    return missed;
}

core::Overlap overlap_of(const ScheduleSpec &spec) {
    core::Overlap overlap = core::Overlap::Allow;
    core::parse_choice(core::kOverlapNames, view(spec.overlap), &overlap);
    return overlap;
}

JobSpec job_of_run(const ScheduleSpec &spec, TimestampTz run, const QueueScope *scope) {
    auto *options = DatumGetJsonbP(spec.options);
    ParsedSpec parsed = parse_spec(&options->root, run, Refs{}, KeysOf::Schedule, "options");
    JobSpec job = parsed.job;
    job.queue = spec.queue;
    job.kind = spec.kind;
    job.payload = spec.payload;
    Datum &metadata = job.optional[kMetadata];
    if (metadata != Datum(0) && !JB_ROOT_IS_OBJECT(DatumGetJsonbP(metadata)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("key \"metadata\" of argument \"options\" must be a JSON object"),
                        errhint("Use an object such as '{\"tenant\": 7}'. jobq adds the name of the schedule and the "
                                "time of the run to it.")));
    const Datum of_run = run_metadata(spec.name, run);
    metadata = metadata == Datum(0) ? of_run : DirectFunctionCall2(jsonb_concat, metadata, of_run);
    check_spec(&job, parsed.has_max_attempts, scope);
    fill_from_queue(&job, parsed.has_max_attempts);
    // Replaces on_conflict 'error' with 'ignore', because no caller would see the error. If there is a conflict, the
    // run counts as fired.
    if (job.on_conflict == core::OnConflict::Error) job.on_conflict = core::OnConflict::Ignore;
    const core::Micros jitter = spec.jitter == nullptr ? 0 : span_of(spec.jitter);
    job.run_at = core::saturating_add(run, core::jitter_of(view(spec.name), run, jitter));
    return job;
}

}  // namespace jobq
