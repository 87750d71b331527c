// Jobs that would await each other for ever: each waits, without a timeout, for all of some jobs (jobq_await_jobs), one
// of which waits in the same way for it, directly or through others. Other waits can end without each other: what may
// time out, any of several, a signal, and dependencies, which a failure ends.
//
// Two who begin to wait at once do not see each other. So whoever is told that a job waits (groups/waits.h) looks
// again, when both have committed, and sets one of them free, which then sees the other.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// The first of `ids` (bigint[]) that waits in this way for `job`; 0: none does. Inside with_spi(); `snapshot`: see
// read().
int64 find_one_behind(int64 job, Datum ids, Snapshot snapshot);

// Rows (id): those of these jobs that wait for themselves, through others; the highest id first. Inside with_spi().
Rows find_rings(Datum *jobs, int count);

}  // namespace jobq
