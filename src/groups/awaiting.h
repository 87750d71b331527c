// Jobs that await something, whatever it is: for groups/waits.cpp and groups/job_ends.cpp.
#pragma once

#include "compat/pg.h"

namespace jobq {

// In a statement, of a job j: it sleeps. Not one that has been set free and has not looked yet.
#define AWAITS_SOMETHING "j.status = 'blocked' AND j._must_end_at IS NOT NULL AND j._group_waiting IS NULL"

// Jobs in one transaction: the first shall not wait long for the last.
constexpr int kWaitsAtOnce = 1000;

// Locks those of these jobs that await something and that nobody holds, and leaves them in front, in their order;
// returns how many. The others are looked at again. `others`, unless nullptr, is an array that goes with ids. Inside
// with_spi().
int lock_awaiting(Datum *ids, Datum *others, int count);

}  // namespace jobq
