// The next job in the line of a group becomes the head of the group in the same transaction that ends the current head.
// While a group has a head, no session makes another job the head (groups/unblock.h), and only one transaction can end
// the head. So the transaction that ends the head can make the next job the head, before it commits and without a lock.
// If the transaction makes no new head, it publishes the group to the background worker, which makes a head for each
// group that might have no head.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"

namespace jobq {

// For each group whose head this transaction has ended, makes the next job in line the head. main/jobq.cpp calls this
// function before the commit. An error would undo the change that ends the current head, so the function waits for no
// other transaction and calls no user-defined function. Leaves the following groups to the background worker:
//  * all groups, if leave_next_heads() has been called, if open_jobs_if_quiet() returns false, or in REPEATABLE READ
//    and above, where the snapshot might be older than the line;
//  * a group that has no job in line yet;
//  * a group whose next job has been locked or changed by another session;
//  * a group in which too many index entries of former heads precede the next job, because an old transaction might
//    still see these heads in line;
//  * a group whose next job is in a lane that might be about to be deleted.
void promote_successors();

// ---- Functions that invalidate what the worker has cached about a group (groups/groups.cpp) when another transaction
// makes a job the head of the group

// Updates the counter of each group in which this transaction has made a job the head. main/jobq.cpp calls this
// function when the transaction has committed or rolled back.
void end_successions();

// succession_mark() returns a number, the mark. The worker reads the mark, then takes a snapshot, and remembers facts
// about the group that it reads under this snapshot. Later, under a new snapshot, no_succession_since() returns whether
// these facts are still valid, that is, whether no transaction that is visible to the new snapshot has made a job the
// head of the group in the meantime. If jobq is not preloaded, there are no counters, and no_succession_since() always
// returns true, so the worker must not remember anything about a group.
uint64 succession_mark(int64 group);
bool no_succession_since(int64 group, uint64 mark);

// main/jobq.cpp calls these functions to set up the counters in shared memory.
Size successions_size();
void make_successions(void *memory, bool fresh);

}  // namespace jobq
