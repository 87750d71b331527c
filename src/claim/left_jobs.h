// Looks for jobs without claiming them. Wakes the next worker that sleeps in jobq_wait() if a claim leaves claimable
// jobs in the queue (see waiters/claims.h). Only claim.cpp may call these functions.
#pragma once

#include "claim/take_from_lane.h"
#include "claim/take_job.h"
#include "compat/pg.h"

namespace jobq {

// If any worker is waiting, looks for a claimable job in the claim's lanes, starting where the claim stopped, and wakes
// the next worker if it finds a job. Must be called after a claim that has taken all the jobs it wanted, because the
// claim might have left other jobs. Returns true if the next worker will also look for jobs in all other queues for
// which this worker has waited.
bool wake_for_left_jobs(Claim *claim, const LaneCursor *lanes, int count);

// Finds the job that a claim would take first from these lanes, without locking it, and sets *key to its key. Returns
// false if there is no such job.
bool find_first_job(Claim *claim, const LaneCursor *lanes, int count, core::ClaimKey *key);

}  // namespace jobq
