// Makes commits asynchronous, so that they do not wait until the WAL is on disk. A function call can request an
// asynchronous commit if losing its transaction in a crash is harmless. The commit is asynchronous only if the
// transaction consists entirely of such calls. It is not enough that the call is outside a transaction block, because a
// statement such as INSERT ... SELECT FROM jobq_claim() also writes other data. Therefore, these functions compare WAL
// positions to find out whether the transaction has written WAL before the first such call, between two such calls, or
// after the last such call.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether the transaction has written WAL only in calls that requested an asynchronous commit. Call this
// function before the current call writes anything.
bool is_whole_transaction();
// Allows an asynchronous commit. Call this function after the current call has written everything, but only if
// is_whole_transaction() returned true and losing the effects of the current call in a crash is harmless. The
// transaction then commits as with synchronous_commit = off, unless it writes something else.
void allow_async_commit();

// Makes the commit asynchronous if allow_async_commit() has allowed this. main/jobq.cpp calls this function before the
// commit, after all other functions that write.
void choose_async_commit();

}  // namespace jobq
