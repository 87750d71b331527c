// Commits that need not wait for the disk, call by call: for transactions that consist of nothing but calls whose loss
// in a crash does no harm. Being outside a transaction block is not enough: INSERT ... SELECT FROM jobq_claim() is one
// statement. So what counts is the WAL that the transaction has written: none before the call, none after it.
#pragma once

#include "compat/pg.h"

namespace jobq {

// To be called before anything is written: whether the transaction has written nothing but what such calls did.
bool is_whole_transaction();
// And after it, when that was so and the call may be lost. Unless something else follows, the transaction commits as
// with synchronous_commit = off.
void allow_async_commit();

// For main/jobq.cpp: before the commit, as the last to look at what has been written.
void choose_async_commit();

}  // namespace jobq
