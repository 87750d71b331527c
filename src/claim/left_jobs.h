// Wakes the next worker that sleeps in jobq_wait() when a claim leaves claimable jobs: see waiters/waiters.h.
// Only claim.cpp may call this.
#pragma once

#include "claim/take_from_lane.h"
#include "claim/take_job.h"
#include "compat/pg.h"

namespace jobq {

// Looks for a claimable job in the claim's lanes, from where the claim stopped, if any worker waits, and wakes the next
// worker if there is one. For a claim that may have left jobs because it wanted no more.
void wake_for_left_jobs(Claim *claim, const LaneCursor *lanes, int count);

}  // namespace jobq
