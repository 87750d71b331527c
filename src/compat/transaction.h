// The end of a transaction, for all parts of jobq: one registration with the server, fixed phases, and in each phase
// the parts in an order that stands where the library is put together (main/jobq.cpp).
//
// Up to Commit and Prepare a part may raise an error, write, and run SQL. From then on it raises nothing, allocates
// nothing and reads no catalogue: for a transaction that has been committed an error is a panic.
#pragma once

#include "compat/pg.h"

namespace jobq {

// In the order in which the server comes by. Parallel workers change nothing and take no part.
enum class Phase {
    BeforeCommit,   // what is written here belongs to the transaction
    BeforePrepare,  // the same of PREPARE TRANSACTION
    Prepare,        // nobody can end the prepared transaction before this has been done
    Commit,         // everybody sees the transaction; it holds its locks, and has sent no invalidations yet
    AfterCommit,    // locks are released, invalidations sent: who is woken now finds everything changed
    Abort,
    AfterAbort,
    SavepointCommit,  // of the current subtransaction
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

// When the transaction ends: the time of its record from Commit and Abort on, about now in the phases before.
TimestampTz end_of_transaction();

// After an error that goes no further, in PG_CATCH, when what is wanted of it has been copied: ends its transaction,
// and lets go what the server's own loop over messages (PostgresMain) lets go then, somebody's code having perhaps
// taken it.
void abort_after_error();

// 25000 while parallel workers run: some function that calls one of ours was not marked PARALLEL UNSAFE.
void refuse_parallel_operation();

// The parts in the order of the phases, and within a phase in that in which they are called. Once, when the library is
// loaded; the array stays.
void take_part_in_transactions(const TransactionPart *parts, int count);

}  // namespace jobq
