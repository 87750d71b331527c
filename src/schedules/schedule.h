// A schedule: what it was told, where it stands, when it runs, and the jobs of its runs.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/spi.h"
#include "enqueue/enqueue.h"
#include "job/life_policy.h"
#include "queues/scope.h"
#include "schedules/timing_policy.h"

namespace jobq {

constexpr size_t kMaxScheduleNameBytes = 255;

// What the callers of jobq_schedule say.
struct ScheduleSpec {
    text *name, *cron, *timezone, *queue, *kind;
    Datum payload, options;  // jsonb
    text *missed, *overlap;
    int32 max_missed;
    Interval *deadline, *jitter;     // nullptr: none
    core::Maybe starts_at, ends_at;  // none: no bound
    std::optional<bool> paused;      // none: as it is
    text *source;
};

// A row of jobq.schedule_settings.
struct Schedule {
    ScheduleSpec spec;
    TimestampTz created_at;
    core::Maybe next_run, last_run, last_job;
    int32 failures;
    ArrayType *unfinished;  // nullptr: none are known
};
#define SCHEDULE_COLUMNS                                                                                       \
    "s.name, s.cron, s.timezone, s.queue, s.kind, s.payload, s.options, s.missed, s.overlap, s.max_missed, "   \
    "s.deadline, s.jitter, s.starts_at, s.ends_at, s.paused, s.source, s.created_at, s.next_run, s.last_run, " \
    "s.last_job, s.failures, s._unfinished"
Schedule schedule_of(const Row &row);

// The expression of an argument; 22023 with field and position where it is none.
core::Cron cron_of(const text *expression, const char *argument);
// 22023 for an expression or a zone that is none.
core::Timing timing_of(const ScheduleSpec &spec, TimestampTz created_at);

// The next run of one that goes on from `now`; none: there is none any more.
core::Maybe next_run_from(const core::Timing &timing, const core::Maybe &last_run, TimestampTz now);

core::Missed missed_of(const ScheduleSpec &spec);
core::Overlap overlap_of(const ScheduleSpec &spec);

// The job of one run, checked as jobq_enqueue does it; all but what it depends on.
JobSpec job_of_run(const ScheduleSpec &spec, TimestampTz run, const QueueScope *scope);

}  // namespace jobq
