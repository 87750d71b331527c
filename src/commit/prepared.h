// Publishes the effects of prepared transactions when they end. COMMIT PREPARED and ROLLBACK PREPARED can come from any
// session, from the apply worker of a subscription with two_phase, or from another extension. These commands do not run
// the transaction callbacks of the prepared transaction.
//
// PREPARE TRANSACTION stores the effects in shared memory, under the transaction ID. No callback reports the end of the
// prepared transaction, so jobq asks the server. A command that ends a prepared transaction runs in a transaction that
// writes WAL but has no transaction ID. At the end of every such transaction, the process checks which prepared
// transactions have ended. If a prepared transaction is ended in any other way, the next round of the worker detects
// this.
//
// Transactions that were prepared before the server was started or promoted are added to shared memory when the first
// transaction after the start or promotion ends. The effects of these transactions are unknown, so each transaction is
// treated as if it had all effects.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"

namespace jobq {

// A set of bits that says which effects of a transaction must be published.
using PreparedEffects = uint32;
constexpr PreparedEffects kDeadlines = 1;       // there is work for a round of the background worker
constexpr PreparedEffects kReadyJobs = 2;       // jobs have become claimable
constexpr PreparedEffects kLooks = 4;           // settings of queues, or lanes, have changed
constexpr PreparedEffects kFinishedJobs = 8;    // jobs have ended or were deleted
constexpr PreparedEffects kUnblockedJobs = 16;  // jobs might have to be unblocked, or a tick was unblocking jobs
constexpr PreparedEffects kFreedSlots = 32;     // running jobs have released slots of limits
constexpr PreparedEffects kClaimedJobs = 64;    // jobs have been claimed, or slots of limits have been taken
constexpr PreparedEffects kExtensionChanged = 128;
constexpr PreparedEffects kDatabasesChanged = 256;
constexpr PreparedEffects kAllEffects = 2 * kDatabasesChanged - 1;
// If the transaction is rolled back, only these effects are published, because the rollback undoes claims and might
// undo the unblocking of jobs by a tick. If the transaction commits, all effects except kClaimedJobs are published.
constexpr PreparedEffects kEffectsOfRollback = kClaimedJobs | kUnblockedJobs;
constexpr PreparedEffects kEffectsOfCommit = kAllEffects & ~kClaimedJobs;

// Publishes the effects of the prepared transactions that have ended in this session's database. May raise an error,
// because it reads the commit log.
void settle_prepared();

// Stores the effects of the current transaction, which is being prepared. Called by main/jobq.cpp.
void keep_log();
// Calls settle_prepared() if the current transaction might have ended a prepared transaction. Called before every
// commit, because after the commit it is no longer known whether the transaction has written WAL.
void settle_prepared_before_commit();
// Ensures that keep_log() finds a free entry without having to read the commit log.
void make_room_before_prepare();
// Requests a round of the background worker, which publishes the effects of prepared transactions that have ended.
// Called when a transaction fails, because a command can fail after it has ended a prepared transaction. The abort
// callback must not look up how the prepared transaction ended, because reading the commit log can raise an error, and
// an error in an abort callback would cause the callback to be called again, and so on. The callback cannot recognize
// such a command either, so every failing transaction without a transaction ID requests a round while the database has
// a prepared transaction.
void leave_prepared_to_worker();

// main/jobq.cpp calls these functions to set up the table of prepared transactions in shared memory and to report its
// usage.
Size prepared_size();
void make_prepared(void *memory, bool fresh);
SharedUsage prepared_usage();

}  // namespace jobq
