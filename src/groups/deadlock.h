// Finds deadlocks between waiting jobs. A job waits for another job permanently if it awaits, without a timeout, all
// jobs in a list (jobq_await_jobs), or if it is in the line of a group, where it waits for the head of the group. A
// cycle of such waits never ends. The following waits do not count as permanent and cannot be part of such a cycle:
// waits with a timeout, waits for any of several jobs, waits for a signal, and dependencies. Dependencies do not count
// because a failed dependency cancels or unblocks the job.
//
// A call that would close a cycle is rejected. If two concurrent transactions close a cycle together, neither sees the
// change made by the other. Therefore, after both have committed, the promoter checks the waiting jobs
// (groups/awaiters.h) and unblocks one job of the cycle. When the worker of this job then tries to wait again, its call
// is rejected.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// Returns the first of `ids` (bigint[]) that waits for `job` permanently, or 0 if there is none. Call it inside
// with_spi(). `snapshot` has the same meaning as in read() (compat/spi.h).
int64 find_one_waiting_for(int64 job, Datum ids, Snapshot snapshot);

// Returns the given jobs that wait for themselves through other jobs, as rows (id) in descending order. Call it inside
// with_spi().
Rows find_rings(Datum *jobs, int count);

// Returns the given finished jobs (bigint[]) that would wait permanently if a retry put them into the line of their
// group, because the head of the group waits for them. The result has the columns id and head. `groups` (bigint[])
// contains the group of each job. Call it inside with_spi().
Rows find_rings_by_line(Datum jobs, Datum groups);

}  // namespace jobq
