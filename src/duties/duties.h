// The duties that change jobs: rescue, cancel, expire, promote, prune, and repair. Call these functions inside
// with_spi().
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "job/duty_outcome.h"

namespace jobq {

// Each of these functions changes a batch of jobs. A job that cannot be changed, for example because a user-defined
// trigger raises an error, is skipped, counted, and reported.
//
// rescue_expired() first adds running jobs to the rescue index (leases/rescue_index.h). It then searches this index
// only if the horizon (leases/horizon.h) shows that a lease might have expired at `now` or that a cancellation might
// have been requested before `requested_before`, or if the horizon cannot be relied on.
DutyOutcome rescue_expired(TimestampTz now, TimestampTz requested_before, TimestampTz grace_start, int batch);
DutyOutcome cancel_overdue(TimestampTz now, TimestampTz requested_before, int batch);
DutyOutcome expire_unclaimed(TimestampTz now, int batch);
DutyOutcome promote_due(TimestampTz now, int batch);
DutyOutcome prune_finished(TimestampTz now, int batch);
// Adds lanes that are missing from the directory because jobs were changed with plain SQL. Also finds heartbeats that
// are later than both `now` and the system clock, and sets them to the current time.
DutyOutcome repair(TimestampTz now, TimestampTz grace_start);

// Returns the earliest time at which a lease expires, a cancellation is forced, or a job becomes due, or DT_NOEND if
// there is no such time.
TimestampTz earliest_deadline(TimestampTz grace_start, core::Micros cancel_grace);
// Returns the time at which the next job becomes due, or DT_NOEND if there is none.
TimestampTz next_due_job();

}  // namespace jobq
