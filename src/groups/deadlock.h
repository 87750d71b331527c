// Finds deadlocks between waiting jobs. A job waits for another one permanently if it awaits all jobs of a list without
// a timeout (jobq_await_jobs), or if it is in the line of a group, where it waits for the head of the group. A ring of
// such waits never ends. Other waits are not part of a ring, because they end by themselves: waits with a timeout, for
// any of several jobs, or for a signal, and dependencies, because a failed dependency cancels or unblocks the job.
//
// A call that would close a ring is rejected. If two concurrent transactions close a ring together, neither sees the
// change of the other. So after both have committed, the promoter checks the waiting jobs (groups/awaiters.h) and
// unblocks one job of the ring, whose next call is rejected.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// Returns the first of `ids` (bigint[]) that waits for `job` permanently, or 0 if there is none. Call it inside
// with_spi(). `snapshot`: see read().
int64 find_one_waiting_for(int64 job, Datum ids, Snapshot snapshot);

// Returns rows (id) of the given jobs that wait for themselves through other jobs, the highest id first. Call it
// inside with_spi().
Rows find_rings(Datum *jobs, int count);

// Returns rows (id, head) of the given finished jobs (bigint[]) that would wait permanently if they entered the
// line of their group, because the head of the group waits for them. `groups` (bigint[]) has the group of each job.
// Call it inside with_spi().
Rows find_rings_by_line(Datum jobs, Datum groups);

}  // namespace jobq
