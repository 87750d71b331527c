// The tick: the work that must be done even if no session calls jobq. jobq_tick() runs it in the caller's transaction.
// The background worker runs one duty after the other, each batch in its own transaction.
#pragma once

#include "compat/pg.h"
#include "core/duty.h"
#include "duties/duties.h"

namespace jobq {

using core::Duty;
using core::kDutyCount;
using core::Rest;

// Returns why jobs must be left alone, if they must: while a dump is being restored, jobs may lack their dependencies
// or their queue's settings, and the jobs of a copy belong to another database. If it returns None, no restore can
// begin until the transaction ends. Every duty must ask first, except Duty::Reconcile, which changes no job.
Rest rest_of_duties();

// Runs one batch of one duty at time `now`, inside the current transaction (opens an SPI connection). Leases that were
// claimed before `grace_start`, or before the jobs were adopted, expire one timeout after it at the earliest. `batches`
// combines several batches into one for a caller that continues in the same transaction, because otherwise each batch
// would read the index entries of the previous batches again.
DutyOutcome run_duty(Duty duty, TimestampTz now, TimestampTz grace_start, int batches = 1);

// Returns whether rows that an earlier batch has skipped would still be skipped. A batch that skips no rows does not
// show that, because a duty retries skipped rows less often. Opens an SPI connection.
bool leaves_out_still(Duty duty);

// Returns the earliest moment at which rescue, cancel, promote, or a schedule has work; DT_NOEND: never.
TimestampTz next_deadline(TimestampTz now, TimestampTz grace_start);

// Returns whether Duty::Reconcile would delay the other duties.
bool recount_takes_long();

// Returns whether any unfinished job exists, i.e., whether rounds at jobq.tick_interval are worth their cost.
bool database_in_use();

}  // namespace jobq
