// Reads a schedule (its definition, state, and times) and builds the jobs of its runs.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/spi.h"
#include "core/life.h"
#include "enqueue/enqueue.h"
#include "queues/scope.h"
#include "schedules/timing_policy.h"

namespace jobq {

constexpr size_t kMaxScheduleNameBytes = 255;

// The definition of a schedule, as given to jobq_schedule.
struct ScheduleSpec {
    text *name, *cron, *timezone, *queue, *kind;
    Datum payload, options;  // jsonb
    text *missed, *overlap;
    int32 max_missed;
    Interval *deadline, *jitter;        // nullptr if not set
    core::OptInt64 starts_at, ends_at;  // empty if unbounded
    std::optional<bool> paused;         // empty: keep the current state
    text *source;
};

// A row of jobq.schedule_settings.
struct Schedule {
    ScheduleSpec spec;
    TimestampTz created_at;
    core::OptInt64 next_run, last_run, last_job;
    int32 failures;
    ArrayType *unfinished;  // nullptr if none are known
};
#define SCHEDULE_COLUMNS                                                                                       \
    "s.name, s.cron, s.timezone, s.queue, s.kind, s.payload, s.options, s.missed, s.overlap, s.max_missed, "   \
    "s.deadline, s.jitter, s.starts_at, s.ends_at, s.paused, s.source, s.created_at, s.next_run, s.last_run, " \
    "s.last_job, s.failures, s._unfinished"
Schedule schedule_of(const Row &row);

// Returns the times of a schedule. Raises 22023 if the expression or the time zone is invalid.
core::Timing timing_of(const ScheduleSpec &spec, TimestampTz created_at);

// Returns the first run after the time that core::resume_after() returns for `now` and `last_run`, or nothing if no run
// remains.
core::OptInt64 next_run_from(const core::Timing &timing, const core::OptInt64 &last_run, TimestampTz now);

core::Missed missed_of(const ScheduleSpec &spec);
core::Overlap overlap_of(const ScheduleSpec &spec);

// Returns the job of one run, without its dependencies. Checks the job as jobq_enqueue does.
JobSpec job_of_run(const ScheduleSpec &spec, TimestampTz run, const QueueScope *scope);

}  // namespace jobq
