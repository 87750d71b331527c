// Enqueues the jobs of schedules that are due. The job of a run and the next run are written in one transaction, under
// the row lock of the schedule, so a run is fired only once even if two sessions fire it at the same time or the server
// restarts.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"
#include "schedules/schedule.h"

namespace jobq {

// Call these functions inside with_spi(), with the owner's rights.

// Fires a batch of the schedules that are due at `now`. A schedule that cannot be fired stays due, shows the error, and
// is retried; a schedule that another session has locked is skipped. `grace_start` is the time of the last clock step.
// When it changes, and at the first call of a session, all next runs are recomputed, because time zones or the time may
// have changed.
DutyOutcome fire_due(TimestampTz now, TimestampTz grace_start);

// Returns whether the last attempt to fire any schedule failed.
bool any_schedule_fails();

// Returns when the next schedule is due, or DT_NOEND.
TimestampTz next_schedule_due();

// Fires a locked schedule regardless of its times. Returns the new job or the job that holds its unique key; returns
// nothing if the overlap setting skips the run because the last job is unfinished.
core::OptInt64 fire_now(const Schedule &schedule, TimestampTz now);

}  // namespace jobq
