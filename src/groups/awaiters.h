// Unblocks jobs that await a signal (jobq_await) or the end of other jobs (jobq_await_jobs). When such a job is
// unblocked and claimed again, the worker that holds the lease checks whether the wait is over. So if a job is
// unblocked too early, this costs only an unnecessary claim.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// SQL condition: the job j awaits something. The condition is false for a job that has been unblocked but whose worker
// has not yet checked whether the wait is over.
#define AWAITS_SOMETHING "j.status = 'blocked' AND j._must_end_at IS NOT NULL AND j._group_waiting IS NULL"

// ---- Functions for groups/edge_ends.cpp, which calls them inside with_spi().

// These functions add to `jobs` the jobs that await one of the given ended jobs or one of the given signals.
void find_awaiters(const Ended &ended, Notes<Datum> *jobs);
void find_awaiters_of_signals(const Unblocked *published, int count, Notes<Datum> *jobs);
// Checks the given jobs, and unblocks each job whose wait might be over. The caller must have called watch_targets()
// for the jobs.
void look_at_awaiters(Datum *jobs, int count, Unblocking *done);

}  // namespace jobq
