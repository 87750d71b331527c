// Calls functions of jobq's modules ("parts") at the end of a transaction. Each function is registered for a phase.
// main/jobq.cpp defines the order of the functions within each phase.
//
// In the phases BeforeCommit and BeforePrepare, a function may raise errors, write, and run SQL. In all later phases,
// it must not raise errors, allocate memory, or read a catalog, because an error after the commit is a PANIC.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The phases, in the order in which the server reaches them. Functions are not called in parallel workers, because
// these change nothing.
enum class Phase {
    BeforeCommit,   // data that is written in this phase belongs to the transaction
    BeforePrepare,  // the same for PREPARE TRANSACTION
    Prepare,        // until this phase is done, no session can commit or roll back the prepared transaction
    Commit,  // the changes are visible to all sessions, but locks are still held and invalidations have not been sent
    AfterCommit,  // locks have been released and invalidations sent, so a session that is woken now sees all changes
    Abort,
    AfterAbort,
    SavepointCommit,  // commit of the current subtransaction
    SavepointAbort,
    AfterSavepointAbort,
};
constexpr int kPhases = static_cast<int>(Phase::AfterSavepointAbort) + 1;

struct TransactionPart {
    Phase phase;
    void (*take_part)();
};

template <int Count>
constexpr bool in_order(const TransactionPart (&parts)[Count]) {
    for (int i = 1; i < Count; i++)
        if (parts[i].phase < parts[i - 1].phase) return false;
    return true;
}

// Returns the time at which the transaction ends: from the phases Commit and Abort on, the time in its commit or abort
// record; in earlier phases, the current time.
TimestampTz end_of_transaction();

// Ends the transaction after an error that is not raised again. Call it in PG_CATCH, after you have copied the needed
// parts of the error. It also releases all resources that PostgresMain() releases after an error, because user code may
// have acquired them.
void abort_after_error();

// Raises 25000 in a parallel operation. This happens if a user's function calls jobq's functions but is not marked
// PARALLEL UNSAFE.
void refuse_parallel_operation();

// Registers the functions, which must be sorted by phase; within a phase they are called in the order of the array.
// Called once when the library is loaded. The array must stay valid.
void take_part_in_transactions(const TransactionPart *parts, int count);

}  // namespace jobq
