// A claim that leaves claimable jobs wakes the next worker that sleeps in jobq_wait(): see claim/waiters.h.
// Who may call it: claim.cpp.
#pragma once

#include "claim/take_from_lane.h"
#include "claim/take_job.h"
#include "compat/pg.h"

namespace jobq {

// For a claim that may have left jobs because it wants no more. Looks for a claimable job in its lanes, from where the
// claim has stopped, if any worker waits.
void wake_for_left_jobs(Claim *claim, const LaneCursor *lanes, int count);

}  // namespace jobq
