// Publishes what a transaction has changed, as recorded in its log (log/transaction_log.h), once other sessions can see
// the changes. Notifies the background worker of deadlines, updates the hints for claims in shared memory, and wakes up
// the sessions that wait for jobs.
#pragma once

#include "commit/prepared.h"
#include "compat/pg.h"
#include "log/transaction_log.h"

namespace jobq {

// main/jobq.cpp calls these functions at the end of a transaction.
void publish_claimable();
void publish_deadlines();
void wake_for_claimable();
void wake_for_freed_slots();
void wake_for_slots_not_taken();
void wake_for_claims_undone();  // after a rollback, which makes the claimed jobs claimable again
void wake_for_finished();       // also unblocks the jobs that depend on the finished jobs
void forget_claims();           // after a rollback

// Publishes the effects of a prepared transaction that has ended in this database. Treats every job as possibly
// changed, because it is no longer known which jobs the transaction has changed. Raises no error.
void publish_prepared(PreparedEffects effects);

}  // namespace jobq
