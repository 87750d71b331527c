// Publishes the log of a transaction (log/transaction_log.h) to the rest of the server when other sessions can see the
// transaction: notifies the background worker of deadlines, updates the hints for claims in shared memory, and wakes up
// the sessions that wait for jobs.
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
void wake_for_claims_undone();  // after a rollback: the jobs of the claims are claimable again
void wake_for_finished();       // also unblocks the jobs that depend on the finished jobs
void forget_claims();           // after a rollback

// Publishes that a prepared transaction of this database has ended and is visible to other sessions. Publishes changes
// of any job, because it is no longer known which jobs the transaction has changed. Raises no error.
void publish_prepared(PreparedEffects effects);

}  // namespace jobq
