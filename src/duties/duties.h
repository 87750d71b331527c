// The duties that change jobs: rescue, cancel, promote, prune, and repair. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "job/duty_outcome.h"

namespace jobq {

// Each function changes a batch of jobs. A job that cannot be changed, for example because a user's trigger raises an
// error, is skipped, counted, and reported. rescue_expired() first adds the running jobs that are not in the rescue's
// index yet to that index. Then it checks the jobs in the index, but only if the horizon (leases/horizon.h), the
// earliest of their deadlines, shows that a lease has expired at `now` or that a cancellation was requested before
// `requested_before`.
DutyOutcome rescue_expired(TimestampTz now, TimestampTz requested_before, TimestampTz grace_start, int batch);
DutyOutcome cancel_overdue(TimestampTz now, TimestampTz requested_before, int batch);
DutyOutcome promote_due(TimestampTz now, int batch);
DutyOutcome prune_finished(TimestampTz now, int batch);
// Adds lanes that are missing from the directory after a manual change. Sets back heartbeats that are later than both
// `now` and the system clock.
DutyOutcome repair(TimestampTz now, TimestampTz grace_start);

// Returns the earliest time at which a lease expires, a cancellation is forced, or a job becomes due; DT_NOEND: none.
TimestampTz earliest_deadline(TimestampTz grace_start, core::Micros cancel_grace);
// Returns when the next job becomes claimable; DT_NOEND: there is none.
TimestampTz next_due_job();
// The first function returns whether there is any unfinished job; the second one, whether there is any job at all.
bool any_unfinished_job();
bool any_job();

}  // namespace jobq
