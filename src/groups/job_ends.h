// Jobs that await the end of others (jobq_await_jobs, edges/awaits.h). A job that others await is entered in
// edges/awaited_jobs.h by whoever sets free, who looks then under a later snapshot whether it has ended; a commit that
// ends a job is visible first and looks there then. So one of the two notices. Of a job that awaits all of many the
// highest is watched, and when that has ended the next lower one that has not: each is looked at once.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "groups/unblock.h"

namespace jobq {

// For groups/waits.cpp, inside with_spi(). Adds the jobs that await one of those that are told of, as ended perhaps.
void find_waiters(const Unblocked *told, int count, Notes<Datum> *jobs);
// Of these jobs adds those whose wait for others may be over.
void find_ended_waits(Datum *jobs, int count, Notes<Datum> *over);

}  // namespace jobq
