// Commits that do not wait for the disk. A call may ask for one if losing its transaction in a crash does no harm; the
// commit is asynchronous if the transaction consists only of such calls. It is not enough that the call is outside a
// transaction block, because INSERT ... SELECT FROM jobq_claim() is one statement. So the WAL decides: the transaction
// must write none before the first of these calls and none after the last.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether the transaction has written nothing except in such calls. Must be called before anything is written.
bool is_whole_transaction();
// Allows an asynchronous commit. Must be called after the writes, if is_whole_transaction() returned true and the call
// may be lost. The transaction commits as with synchronous_commit = off, unless it writes something else.
void allow_async_commit();

// Chooses how to commit, for main/jobq.cpp: called before the commit, after all other functions that write.
void choose_async_commit();

}  // namespace jobq
