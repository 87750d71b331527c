// Asynchronous commits, which do not wait until the WAL is on disk. A function call may request one if no harm is done
// when its transaction is lost in a crash. The commit is asynchronous only if the transaction consists only of such
// calls. It is not enough that the call is outside a transaction block, because a statement such as INSERT ... SELECT
// FROM jobq_claim() also writes other data. Therefore these functions compare WAL positions: the transaction must not
// write WAL before the first such call, between calls, or after the last one.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether the transaction has written nothing except in such calls. Call it before the call writes anything.
bool is_whole_transaction();
// Allows an asynchronous commit. Call it after the call has written everything, if is_whole_transaction() returned true
// and the effects of the call may be lost. The transaction then commits as with synchronous_commit = off, unless it
// writes something else.
void allow_async_commit();

// Makes the commit asynchronous if the calls above allow it. main/jobq.cpp calls this before the commit, after all
// other functions that write.
void choose_async_commit();

}  // namespace jobq
