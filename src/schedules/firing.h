// Enqueues the jobs of schedules that are due. One transaction, which holds the row lock of the schedule, inserts the
// job of a run and sets the time of the next run. So a run is fired only once, even if two sessions try to fire it at
// the same time or the server restarts.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"
#include "schedules/schedule.h"

namespace jobq {

// Call these functions inside with_spi(), with the privileges of the owner.

// Fires a batch of the schedules that are due at `now`. A schedule that cannot be fired stays due, stores the error,
// and is retried; a schedule that another session has locked is skipped. `grace_start` is the result of grace_start(),
// which changes when the server begins to accept writes and when the system clock is changed abruptly. When
// `grace_start` changes, and at the first call in a session, the next runs of all schedules are recomputed, because
// time zones or the clock might have changed.
DutyOutcome fire_due(TimestampTz now, TimestampTz grace_start);

// Returns whether the last attempt to fire failed for at least one schedule.
bool any_schedule_fails();

// Returns the time at which the next schedule is due, or DT_NOEND if there is none.
TimestampTz next_schedule_due();

// Fires a locked schedule regardless of its times. Returns the new job or the job that holds its unique key; returns
// nothing if the overlap setting skips the run because the last job is unfinished.
core::OptInt64 fire_now(const Schedule &schedule, TimestampTz now);

}  // namespace jobq
