// The tick is the periodic work that must be done even if no session calls jobq. It is divided into duties. jobq_tick()
// runs all duties in the caller's transaction. The background worker runs one duty after the other, each batch in a
// separate transaction.
#pragma once

#include "compat/pg.h"
#include "core/duty.h"
#include "duties/duties.h"

namespace jobq {

using core::Duty;
using core::kDutyCount;
using core::Rest;

// Returns the reason why duties must not change jobs now, or None if they may. Duties must not change jobs while a dump
// is being restored, because jobs might lack their dependencies or the settings of their queue. They must not change
// jobs in a copy of a database, because the jobs belong to the original database. If the result is None, no restore can
// begin until the transaction ends. Must be called before every duty except Duty::Reconcile, which changes no jobs.
Rest rest_of_duties();

// Runs one batch of a duty at the time `now`, in the current transaction. Opens an SPI connection. A lease that began
// before `grace_start` expires one timeout after `grace_start` at the earliest; if the jobs were adopted after
// `grace_start`, the time of the adoption is used instead of `grace_start`. `batches` multiplies the size of the batch.
// A caller that runs several batches in one transaction should increase `batches`, because each batch reads the index
// entries of the previous batches again.
DutyOutcome run_duty(Duty duty, TimestampTz now, TimestampTz grace_start, int batches = 1);

// Returns whether the duty still cannot change rows that an earlier batch has skipped. A later batch that skips no rows
// does not prove that these rows can now be changed, because a duty does not retry skipped rows in every batch. Opens
// an SPI connection.
bool leaves_out_still(Duty duty);

// Returns the earliest time at which a schedule is due or one of the duties rescue, cancel, and promote has work to do.
// Returns DT_NOEND if there is no such time.
TimestampTz next_deadline(TimestampTz now, TimestampTz grace_start);

// Returns whether Duty::Reconcile, which counts all jobs, would take so long that it would delay the other duties.
bool recount_takes_long();

// Returns whether any unfinished job exists. If there is none, the worker need not run a round every
// jobq.tick_interval.
bool database_in_use();

}  // namespace jobq
