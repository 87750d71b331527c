// The tick: everything that must happen to jobs although nobody calls. jobq_tick() runs it in the caller's
// transaction; the background worker runs one duty after the other, each batch in a transaction of its own.
#pragma once

#include "compat/pg.h"
#include "duties/duties.h"
#include "duties/duty_policy.h"

namespace jobq {

using core::Duty;
using core::kDutyCount;
using core::Rest;

// Whether jobs must be left alone: while a dump is being restored they may lack their dependencies or their queue's
// settings; those of a copy are another's. None keeps restores from beginning until the transaction ends. Only
// Duty::Reconcile, which changes no job, need not ask.
Rest rest_of_duties();

// One batch of one duty at time `now`, inside the current transaction (an SPI connection is opened within).
// `grace_start`: leases claimed before it, or before the jobs were adopted, run out one timeout after it at the
// earliest. `batches`: so many in one, for who goes on in the same transaction: each batch reads past the index entries
// of those that it has changed before.
DutyOutcome run_duty(Duty duty, TimestampTz now, TimestampTz grace_start, int batches = 1);

// Whether rows that a batch before has left out would be left out still: a batch that leaves out none has not looked at
// them, where a duty tries them more rarely than others. An SPI connection is opened within.
bool leaves_out_still(Duty duty);

// The earliest moment at which rescue, cancel, promote or a schedule has something to do; DT_NOEND when never.
TimestampTz next_deadline(TimestampTz now, TimestampTz grace_start);

// Whether Duty::Reconcile would keep the other duties waiting.
bool recount_takes_long();

// Whether any unfinished job exists, i.e. whether rounds at jobq.tick_interval are worth their cost.
bool database_in_use();

}  // namespace jobq
