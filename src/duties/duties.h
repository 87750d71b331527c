// The statements for rescue, cancel, promote, prune, and repair. Must be called inside with_spi().
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "job/duty_outcome.h"

namespace jobq {

// A job that cannot be changed (a trigger of somebody's raises, say) is left out, counted and named; the rest goes on.
// First, running jobs enter the rescue's index that are not in it yet. Those in it are looked at when the horizon has
// come: something is due at `now`, or was asked to cancel before `requested_before`.
DutyOutcome rescue_expired(TimestampTz now, TimestampTz requested_before, TimestampTz grace_start, int batch);
DutyOutcome cancel_overdue(TimestampTz now, TimestampTz requested_before, int batch);
DutyOutcome promote_due(TimestampTz now, int batch);
DutyOutcome prune_finished(TimestampTz now, int batch);
// Adds lanes that a manual change left out of the directory, and moves heartbeats back that are later than `now` and
// the clock.
DutyOutcome repair(TimestampTz now, TimestampTz grace_start);

// Returns the earliest time at which a lease expires, a cancellation is forced, or a job becomes due; DT_NOEND: none.
TimestampTz earliest_deadline(TimestampTz grace_start, core::Micros cancel_grace);
// Returns when the next job becomes claimable; DT_NOEND: there is none.
TimestampTz next_due_job();
// Return whether there is any unfinished job, and whether there is any job at all.
bool any_unfinished_job();
bool any_job();

}  // namespace jobq
