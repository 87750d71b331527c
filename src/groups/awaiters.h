// Jobs that await the end of others or a signal (jobq_await_jobs, jobq_await). A job that is set free looks for itself
// once more, under its lease: a look in vain costs a claim, and decides nothing.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// In a statement: the job j awaits something. A job that has been set free and has not looked yet does not.
#define AWAITS_SOMETHING "j.status = 'blocked' AND j._must_end_at IS NOT NULL AND j._group_waiting IS NULL"

// For groups/edge_ends.cpp, inside with_spi().

// Adds the jobs that await one of these jobs, or one of these events.
void find_awaiters(const Ended &ended, Notes<Datum> *jobs);
void find_awaiters_of_events(const Unblocked *told, int count, Notes<Datum> *jobs);
// Sets those of these jobs free whose wait may be over. The targets of their active edges are watched already.
void look_at_awaiters(Datum *jobs, int count, Unblocking *done);

}  // namespace jobq
