// Publishes the effects of prepared transactions when they end. COMMIT PREPARED and ROLLBACK PREPARED can come from any
// session, from the apply worker of a subscription with two_phase, or from another extension. They do not run the
// transaction callbacks of the prepared transaction.
//
// PREPARE TRANSACTION stores the effects in shared memory, under the transaction id. No callback reports the end of the
// prepared transaction, so jobq asks the server. A command that ends a prepared transaction runs in a transaction that
// writes WAL but has no transaction id. At the end of every such transaction the process checks which prepared
// transactions have ended. If one is ended in any other way, the next round of the worker finds out.
//
// Transactions that were prepared before the server was started or promoted are added when the first transaction after
// that ends. Their effects are unknown, so they count as having all effects.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"

namespace jobq {

// A set of bits: the effects of a transaction that must be published.
using PreparedEffects = uint32;
constexpr PreparedEffects kDeadlines = 1;       // there is work for a round of the background worker
constexpr PreparedEffects kReadyJobs = 2;       // jobs have become claimable
constexpr PreparedEffects kLooks = 4;           // settings of queues, or lanes, have changed
constexpr PreparedEffects kFinishedJobs = 8;    // jobs have ended or were deleted
constexpr PreparedEffects kUnblockedJobs = 16;  // jobs with a group or dependencies may be unblocked, maybe by a tick
constexpr PreparedEffects kFreedSlots = 32;     // running jobs have released slots of limits
constexpr PreparedEffects kClaimedJobs = 64;    // jobs have been claimed, maybe with slots of limits
constexpr PreparedEffects kExtensionChanged = 128;
constexpr PreparedEffects kDatabasesChanged = 256;
constexpr PreparedEffects kAllEffects = 2 * kDatabasesChanged - 1;
// A rollback undoes claims, and may undo the unblocking of jobs by a tick. A commit publishes everything except claims.
constexpr PreparedEffects kEffectsOfRollback = kClaimedJobs | kUnblockedJobs;
constexpr PreparedEffects kEffectsOfCommit = kAllEffects & ~kClaimedJobs;

// Publishes the effects of the prepared transactions of this session's database that have ended. May raise an error,
// because it reads the commit log.
void settle_prepared();

// Stores the effects of the current transaction, which is being prepared. Called by main/jobq.cpp.
void keep_log();
// Calls settle_prepared() if the current transaction may have ended a prepared one. Called before every commit, because
// after the commit it is no longer known whether the transaction has written WAL.
void settle_prepared_before_commit();
// Ensures that keep_log() finds a free entry without having to read the commit log.
void make_room_before_prepare();
// Requests a round of the background worker, which publishes the effects of prepared transactions that have ended. This
// is needed because a command may fail after it has ended a prepared transaction, and its abort callback cannot find
// out how that transaction ended: it must not read the commit log, because an error in an abort callback would call it
// again, and so on. The callback cannot recognize such a command, so every failing transaction without a transaction id
// requests a round while the database has a prepared transaction.
void leave_prepared_to_worker();

// Sets up the shared memory of this file.
Size prepared_size();
void make_prepared(void *memory, bool fresh);
SharedUsage prepared_usage();

}  // namespace jobq
