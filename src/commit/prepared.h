// How prepared transactions end, whoever ends them: COMMIT PREPARED and ROLLBACK PREPARED come from any session, from
// the apply worker of a subscription with two_phase, or from another extension, and run no transaction callbacks of the
// prepared transaction.
//
// PREPARE TRANSACTION leaves here, by the transaction's number, what others must be told when it ends. What became of
// it is not told by anybody but asked of the server: whoever has ended one did so in a transaction of its own, without
// a number, that has written WAL; at the end of such a transaction the process looks which ones are over. One that is
// ended in a way that nobody has thought of is found by the worker's next round.
//
// What was prepared before the server began to write (a start, a promotion) is entered at the end of the first
// transaction: it may have done anything.
#pragma once

#include "compat/pg.h"

namespace jobq {

// What the transaction has done that others are told of.
using PreparedEffects = uint32;
constexpr PreparedEffects kDeadlines = 1;       // something is due
constexpr PreparedEffects kReadyJobs = 2;       // jobs have become claimable
constexpr PreparedEffects kLooks = 4;           // settings of queues, or lanes, have changed
constexpr PreparedEffects kFinishedJobs = 8;    // jobs have ended, or are gone
constexpr PreparedEffects kUnblockedJobs = 16;  // of groups and dependencies, maybe by a tick
constexpr PreparedEffects kFreedSlots = 32;     // running jobs have given back the slots of limits
constexpr PreparedEffects kClaimedJobs = 64;    // jobs, and slots with them, have been taken
constexpr PreparedEffects kExtensionChanged = 128;
constexpr PreparedEffects kDatabasesChanged = 256;
constexpr PreparedEffects kAllEffects = 2 * kDatabasesChanged - 1;
// What a rollback makes free again, and a tick may have left undone; all but the claims count when it commits.
constexpr PreparedEffects kEffectsOfRollback = kClaimedJobs | kUnblockedJobs;
constexpr PreparedEffects kEffectsOfCommit = kAllEffects & ~kClaimedJobs;

// Tells of the prepared transactions of this session's database that are over. May raise an error, because it reads the
// commit log.
void settle_prepared();

// For main/jobq.cpp: what the log of this transaction, which is being prepared, says is kept.
void keep_log();
// Every transaction of every process looks. Before a commit, not after it: by then the transaction has
// forgotten whether it has written WAL.
void settle_prepared_before_commit();
// Ensures that keep_log() finds a place without a look at the commit log.
void make_room_before_prepare();
// A command may fail after it has ended a prepared transaction. Its abort callback cannot find out how that transaction
// ended: it must not read the commit log, because an error in an abort callback aborts again, and so on. So it asks the
// background worker for a round, which settles the transaction within the tick interval. The callback cannot recognize
// such a command. So while the database has a prepared transaction, every failing transaction without a transaction id
// asks for a round.
void leave_prepared_to_worker();

// For main/jobq.cpp: its part of the shared memory.
Size prepared_size();
void make_prepared(void *memory, bool fresh);

}  // namespace jobq
