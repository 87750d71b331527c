// Commits that need not wait for the disk, call by call: for transactions that consist of nothing but calls whose loss
// in a crash does no harm. Being outside a transaction block is not enough: INSERT ... SELECT FROM jobq_claim() is one
// statement. So what counts is the WAL that the transaction has written: none before the call, none after it.
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
