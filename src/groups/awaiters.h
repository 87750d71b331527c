// Unblocks jobs that await the end of other jobs or a signal (jobq_await_jobs, jobq_await). When such a job is
// unblocked and claimed again, its worker checks under the lease whether the wait is over. So unblocking a job too
// early only costs a claim.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// SQL condition: the job j awaits something. False for a job that has been unblocked and whose worker has not checked
// the wait yet.
#define AWAITS_SOMETHING "j.status = 'blocked' AND j._must_end_at IS NOT NULL AND j._group_waiting IS NULL"

// ---- for groups/edge_ends.cpp. Call these functions inside with_spi().

// Add the jobs that await one of these ended jobs, or one of these events, to `jobs`.
void find_awaiters(const Ended &ended, Notes<Datum> *jobs);
void find_awaiters_of_events(const Unblocked *published, int count, Notes<Datum> *jobs);
// Unblocks the given jobs whose wait may be over. The caller must have called watch_targets() for the jobs.
void look_at_awaiters(Datum *jobs, int count, Unblocking *done);

}  // namespace jobq
