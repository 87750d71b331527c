// Deadlocks between held jobs. A job waits for another one permanently if it awaits all of some jobs without a timeout
// (jobq_await_jobs), and if it stands in the line of a group: then it waits for the head of the group. A ring of such
// waits never ends. Other waits end by themselves: a wait with a timeout, for any of several jobs, or for a signal, and
// dependencies, which a failure ends.
//
// A call that would close a ring is rejected. Two transactions that close a ring together do not see each other. So
// after both have committed, the look at waiting jobs (groups/awaiters.h) wakes up one job of the ring, whose next call
// is rejected.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// Returns the first of `ids` (bigint[]) that waits for `job` permanently, or 0. Inside with_spi(); `snapshot`: see
// read().
int64 find_one_waiting_for(int64 job, Datum ids, Snapshot snapshot);

// Returns rows (id) of the jobs that wait for themselves through others, the highest id first. Inside with_spi().
Rows find_rings(Datum *jobs, int count);

// Returns rows (id, head) of the finished jobs (bigint[]) that would wait permanently in the line of the group with the
// same position in `groups` (bigint[]), because the head of the group waits for them. Inside with_spi().
Rows find_rings_by_line(Datum jobs, Datum groups);

}  // namespace jobq
