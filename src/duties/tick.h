// The tick: the periodic work that must be done even if no session calls jobq, divided into duties. jobq_tick() runs
// all duties in the caller's transaction. The background worker runs one duty after the other, each batch in its own
// transaction.
#pragma once

#include "compat/pg.h"
#include "core/duty.h"
#include "duties/duties.h"

namespace jobq {

using core::Duty;
using core::kDutyCount;
using core::Rest;

// Returns why duties must not change jobs now, or None if they may. They must not while a dump is being restored,
// because jobs may lack their dependencies or their queue's settings, and they must not in a copy of a database,
// because its jobs belong to the original. If the result is None, no restore can begin until the transaction ends. Must
// be called before every duty except Duty::Reconcile, which changes no job.
Rest rest_of_duties();

// Runs one batch of one duty at time `now`, inside the current transaction (opens an SPI connection). A lease that
// began before `grace_start`, or before the jobs were adopted, expires one timeout after that time at the earliest.
// `batches` multiplies the size of the batch, for a caller that runs several batches in one transaction: otherwise,
// each batch would read the index entries of the previous batches again.
DutyOutcome run_duty(Duty duty, TimestampTz now, TimestampTz grace_start, int batches = 1);

// Returns whether the duty still cannot change rows that an earlier batch has skipped. A batch that skips no rows does
// not prove the opposite, because a duty does not retry skipped rows in every batch. Opens an SPI connection.
bool leaves_out_still(Duty duty);

// Returns the earliest time at which the duties rescue, cancel, and promote or a schedule have work to do, or DT_NOEND
// if there is none.
TimestampTz next_deadline(TimestampTz now, TimestampTz grace_start);

// Returns whether Duty::Reconcile, which counts all jobs, would take so long that it delays the other duties.
bool recount_takes_long();

// Returns whether any unfinished job exists. If not, the worker need not run a round every jobq.tick_interval.
bool database_in_use();

}  // namespace jobq
