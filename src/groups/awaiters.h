// Jobs that await the end of other jobs, or a signal (jobq_await_jobs, jobq_await). A job that is unblocked checks once
// more itself, under its lease. So unblocking a job too early costs a claim, but decides nothing.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// SQL condition: the job j awaits something. False for a job that has been unblocked and has not checked yet.
#define AWAITS_SOMETHING "j.status = 'blocked' AND j._must_end_at IS NOT NULL AND j._group_waiting IS NULL"

// For groups/edge_ends.cpp, inside with_spi().

// Adds the jobs that await one of these jobs, or one of these events.
void find_awaiters(const Ended &ended, Notes<Datum> *jobs);
void find_awaiters_of_events(const Unblocked *published, int count, Notes<Datum> *jobs);
// Unblocks the jobs whose wait may be over. The targets of their active edges must be watched already.
void look_at_awaiters(Datum *jobs, int count, Unblocking *done);

}  // namespace jobq
