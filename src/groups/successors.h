// The next job in the line of a group becomes the head of the group in the same transaction that ends the current head.
// While a group has a head, no session makes another job the head (groups/unblock.h), and only one transaction can end
// the head. So the transaction that ends the head can make the next job the head, before it commits and without a lock.
// If it does not, it publishes the group to the background worker, which makes a head for each group that may have
// none.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"

namespace jobq {

// Makes the next head of each group whose head this transaction has ended and that has jobs in line. main/jobq.cpp
// calls it before the commit. Waits for no other transaction and calls no user-defined function, because an error would
// roll back the end of the current head. Leaves the following groups to the worker:
//  * all groups, if leave_next_heads() has been called, if open_jobs_if_quiet() returns false, or in REPEATABLE READ
//    and above, where the snapshot may be older than the line;
//  * a group that has no job in line yet; whose next job is locked or changed by another session; that has too many
//    index entries of former heads in front of the next job, because an old transaction may still see them in line; or
//    whose next job is in a lane that may be about to be deleted.
void promote_successors();

// ---- to invalidate what the worker remembers of a group (groups/groups.cpp) when another transaction makes its head

// Counts the heads that this transaction has made. main/jobq.cpp calls it when the transaction has committed or rolled
// back.
void end_successions();

// succession_mark() returns a number ("mark"). Call it before taking the snapshot under which the worker reads facts
// about the group that it will remember. Under a later snapshot, no_succession_since() returns whether these facts are
// still valid, because no transaction that the snapshot shows has made a head of the group in the meantime. Without
// preload, no heads are counted and it always returns true, so the worker must not remember anything about a group
// then.
uint64 succession_mark(int64 group);
bool no_succession_since(int64 group, uint64 mark);

// Set up the counters in shared memory, for main/jobq.cpp.
Size successions_size();
void make_successions(void *memory, bool fresh);

}  // namespace jobq
