// Calls functions of jobq's modules at the end of a transaction. Each function is registered for one phase of the
// transaction's end. main/jobq.cpp defines the order of the functions within each phase.
//
// In the phases BeforeCommit and BeforePrepare, a function may raise errors, write, and run SQL. In all later phases,
// it must not raise errors, allocate memory, or read a catalog, because an error after the commit would be a PANIC.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The phases, in the order in which the server reaches them. The functions are not called in parallel workers, because
// parallel workers do not change anything.
enum class Phase {
    BeforeCommit,   // data that is written in this phase belongs to the transaction
    BeforePrepare,  // data that is written in this phase belongs to the transaction that is being prepared
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

// Returns the time at which the transaction ends. From the phase Commit or Abort on, this is the time in its commit or
// abort record; in earlier phases, it is the current time.
TimestampTz end_of_transaction();

// Ends the transaction after an error that is not rethrown. Call this function in PG_CATCH, after copying the parts of
// the error that are still needed. Also releases all resources that PostgresMain() releases after an error, because
// user code might have acquired them.
void abort_after_error();

// Raises 25000 in a parallel operation. This happens if a user-defined function that calls jobq's functions is wrongly
// marked PARALLEL SAFE or PARALLEL RESTRICTED.
void refuse_parallel_operation();

// Makes the transaction check deferred constraints at the end of each statement from now on. Immediately runs the
// checks that are already queued. The checks run with the same privileges as at the commit. Since PostgreSQL 18, these
// are the privileges of the role that changed the row, usually the owner of the extension. Background workers call this
// function for two reasons. First, at the commit, they would no longer have the owner's privileges. Second, a violated
// constraint must cause an error in the statement that changes the row, so that the worker can skip the row.
void check_deferred_constraints();

// Registers the functions in the array, which must be sorted by phase. Within a phase, the functions are called in the
// order of the array. Called once, when the library is loaded. The array must stay valid.
void take_part_in_transactions(const TransactionPart *parts, int count);

}  // namespace jobq
