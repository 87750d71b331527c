// The next job of a group becomes its head in the same commit that ends the head before it. While a group has a head,
// no session makes another one (groups/unblock.h), and only one transaction can end the head. So this transaction may
// make the next head, at its commit and without a lock. If it does not, it publishes the group to the background
// worker, like every group that may be free.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"

namespace jobq {

// For main/jobq.cpp, before the commit: makes the next head of each group whose head this transaction has ended and
// that has jobs in line. Waits for no other transaction, and calls no user-defined function, because an error would
// undo the end of another job. Leaves to the worker
//  * all groups, if the log says so (leave_next_heads), if open_jobs_if_quiet() is false, and in REPEATABLE READ and
//    above, where the snapshot may be older than the line;
//  * a group that has no job in line yet; or whose next job is locked or changed by another session; or with too many
//    entries of former heads in front of the next job, which an old transaction may still see in line; or whose next
//    job's lane is not known to stay.
void promote_successors();

// ---- what the worker remembers of a group (groups/groups.cpp) becomes wrong if another transaction makes its head

// For main/jobq.cpp, when the transaction has committed or rolled back.
void end_successions();

// succession_mark() returns a number. Take it before the snapshot from which something is learned about the group.
// no_succession_since() returns, under a later snapshot, whether no transaction that this snapshot shows has made a
// head of the group since then. Without preload it always returns true, because nothing is counted, so nothing may be
// remembered of a group then.
uint64 succession_mark(int64 group);
bool no_succession_since(int64 group, uint64 mark);

// For main/jobq.cpp: its part of the shared memory.
Size successions_size();
void make_successions(void *memory, bool fresh);

}  // namespace jobq
