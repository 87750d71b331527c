// What the log of a transaction says of deadlines, claimable jobs and ended ones, told to the rest of the server once
// everybody can see the transaction: to the background worker, to empty ranges and notes of claims, to whoever waits.
#pragma once

#include "commit/prepared.h"
#include "compat/pg.h"
#include "log/transaction_log.h"

namespace jobq {

// For main/jobq.cpp.
void publish_claimable();
void publish_deadlines();
void wake_for_claimable();
void wake_for_freed_slots();
void wake_for_slots_not_taken();
void wake_for_claims_undone();  // jobs whose claims are rolled back are claimable again
void wake_for_finished();       // jobs that depend on those, too
void forget_claims();           // that are rolled back

// A prepared transaction of this database has ended, and everybody can see it: nobody knows any more which jobs it was
// about. Raises no error.
void publish_prepared(PreparedEffects effects);

}  // namespace jobq
