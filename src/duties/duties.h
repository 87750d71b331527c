// The statements behind rescue, cancel, promote, prune and repair. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"
#include "job/job_policy.h"

namespace jobq {

// A job that cannot be changed (a trigger of somebody's raises, say) is left out, counted and named; the rest goes on.
// First, running jobs enter the rescue's index that are not in it yet. Those in it are looked at when the horizon has
// come: something is due at `now`, or was asked to cancel before `requested_before`.
DutyOutcome rescue_expired(TimestampTz now, TimestampTz requested_before, TimestampTz grace_start, int batch);
DutyOutcome cancel_overdue(TimestampTz now, TimestampTz requested_before, int batch);
DutyOutcome promote_due(TimestampTz now, int batch);
DutyOutcome prune_finished(TimestampTz now, int batch);
// Adds lanes that a change by hand left out of the directory, and pulls back heartbeats from the future, `now` and the
// clock's.
DutyOutcome repair(TimestampTz now, TimestampTz grace_start);

// The earliest time at which a lease runs out, a cancellation is forced or a job comes due; DT_NOEND: none.
TimestampTz earliest_deadline(TimestampTz grace_start, core::Micros cancel_grace);
// When the next job becomes claimable; DT_NOEND: there is none.
TimestampTz next_due_job();
// Whether there is any job that is not finished; whether there is any job at all.
bool any_unfinished_job();
bool any_job();

}  // namespace jobq
