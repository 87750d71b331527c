// Schedules that are due enqueue their jobs. The job of a run and the next run are written in one transaction, under
// the lock of the schedule's row: what two fire at once, or a server that comes back fires again, is fired once.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"
#include "schedules/schedule.h"

namespace jobq {

// Inside with_spi(), with the owner's rights.

// A batch of those that are due at `now`. One that cannot be fired is left as it is, shows why and is tried again; one
// that somebody holds is passed over. `grace_start`: when the clock stepped last; with another one than before, and at
// the first call of a session, runs to come are computed anew: zones may have changed, or the time.
DutyOutcome fire_due(TimestampTz now, TimestampTz grace_start);

// Whether there is one that could not be fired when it was tried last.
bool any_schedule_fails();

// When the next one is due; DT_NOEND: none is.
TimestampTz next_schedule_due();

// Fires a schedule, locked, whatever its times. The job, or the one that has its unique key; none: the last one is in
// its way.
core::Maybe fire_now(const Schedule &schedule, TimestampTz now);

}  // namespace jobq
