// The next job of a group becomes its head in the very commit that ends the head before it. While a group has a head
// nobody makes another (groups/unblock.h), and only one transaction can end it: so that one may make the next, at its
// commit and without a lock. Where it does not, the background worker is told, as of any group that may be free.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"

namespace jobq {

// For main/jobq.cpp, before the commit: of the groups whose head this transaction has ended, those that have jobs in
// line get the next one. It waits for nobody's transaction, calls no function of anybody's, since an error would undo
// the end of another job, and leaves to the worker
//  * all of them where the log says so (leave_next_heads), where open_jobs_if_quiet() is false, and in REPEATABLE READ
//    and above, where the snapshot may be older than the line;
//  * a group with nobody in line yet, or whose next job somebody holds or changes, or in front of whose next job stand
//    too many entries of former heads, which an old transaction may still see there, or whose next job's lane is not
//    seen to stay.
void promote_successors();

// ---- what the worker remembers of a group (groups/groups.cpp) is wrong when another transaction has made its head

// For main/jobq.cpp: the transaction has ended, one way or the other.
void end_successions();

// A number, to be taken before the snapshot from which something is learned of the group; and later, behind another
// snapshot, whether no transaction that this one sees has made a head of it since. Without preload always, since
// nothing is counted: nothing may be remembered of a group there.
uint64 succession_mark(int64 group);
bool no_succession_since(int64 group, uint64 mark);

// For main/jobq.cpp: its part of the shared memory.
Size successions_size();
void make_successions(void *memory, bool fresh);

}  // namespace jobq
