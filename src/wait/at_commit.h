// What the log of a transaction says of deadlines, claimable jobs and ended ones, told to the rest of the server once
// everybody can see the transaction: to the background worker, to marks and notes of claims, to whoever waits.
#pragma once

#include "compat/pg.h"
#include "job/transaction_log.h"
#include "wait/prepared.h"

namespace jobq {

// Of the watched jobs, the current transaction's included.
Horizon horizon();
// A look at all watched jobs begins, whose result publish_horizon_at_commit tells. What others publish in between goes
// first. 0: it shall not be told of, since the transaction's snapshot is older than the look, or nobody would be.
uint64 begin_horizon_scan();

// A claim found nothing because of marks: a round shall come within the tick interval, although nothing may be
// unfinished, and find what was made claimable without a word. Raises no error.
void ask_for_round(TimestampTz now);

// For jobq.cpp.
void publish_claimable();
void publish_deadlines();
void wake_for_claimable();
void wake_for_finished();  // jobs that depend on those, too
void forget_claims();      // that are rolled back

// A prepared transaction of this database has ended, and everybody can see it: nobody knows any more which jobs it was
// about. Raises no error.
void publish_prepared(PreparedEffects effects);

}  // namespace jobq
