// Hooks into the end of a transaction for all parts of jobq. They are registered with the server once and have fixed
// phases. main/jobq.cpp defines the order of the parts within each phase.
//
// In the phases before the commit and before PREPARE TRANSACTION, a part may raise errors, write, and run SQL. In all
// later phases, it must not raise errors, allocate memory, or read a catalog, because an error after the commit is a
// PANIC.
#pragma once

#include "compat/pg.h"

namespace jobq {

// In the order in which the server reaches them. Parallel workers change nothing and take no part.
enum class Phase {
    BeforeCommit,   // what a part writes here belongs to the transaction
    BeforePrepare,  // the same for PREPARE TRANSACTION
    Prepare,        // the prepared transaction cannot be committed or rolled back before this phase is done
    Commit,         // visible to all sessions, but its locks are held and its invalidations not sent yet
    AfterCommit,    // locks are released and invalidations sent, so a session that is woken up now sees all changes
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

// Returns when the transaction ends: the time in its commit or abort record from Commit and Abort on, and the current
// time in earlier phases.
TimestampTz end_of_transaction();

// Ends the transaction after an error that is not raised again. Must be called in PG_CATCH, after the needed parts of
// the error have been copied. Also releases what PostgresMain() releases after an error, because user code may have
// acquired it.
void abort_after_error();

// Raises 25000 while parallel workers run: a function that calls one of jobq's functions was not marked PARALLEL
// UNSAFE.
void refuse_parallel_operation();

// Registers the parts, which must be sorted by phase and, within a phase, in the order of their calls. Called once when
// the library is loaded. The array must stay valid.
void take_part_in_transactions(const TransactionPart *parts, int count);

}  // namespace jobq
