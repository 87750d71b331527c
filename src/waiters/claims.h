// What a claim does with the list of waiters (waiters.h): it takes the jobs that were promised to its worker, passes on
// the promised jobs that it cannot take, and wakes a sleeper for the jobs that it leaves. If the library is not
// preloaded, all of these functions do nothing.
#pragma once

#include "compat/pg.h"

#include "core/job.h"
#include "core/wake.h"

#include <string_view>

namespace jobq {

// The queues from which a claim may take jobs.
struct ClaimedQueues {
    const std::string_view *names;
    int count;
};

// Stops commits from promising more jobs to this worker. Must be called before the claim takes its snapshot or reads
// any hint in shared memory.
void begin_claim(const ClaimedQueues &queues, std::string_view worker_id);
// Removes the worker from the list after its claim. Returns true if, during this claim, another claim left a claimable
// job in one of the claim's queues and relied on this worker to find the job. In this case, the caller must look for
// jobs again, under a new snapshot, in the queues for which is_asked_for() returns true. Makes another sleeper check
// the queues for which the worker has waited and that do not belong to the claim's queues.
bool leave_after_claim(const ClaimedQueues &queues);
bool is_asked_for(std::string_view queue);
// Returns whether the claim ends a wait for several queues. Such a claim must look for jobs in the queues that it has
// not read, because other sessions rely on it.
bool ends_wait_for_several();
// If a claim with this filter could not see the jobs that were promised to this worker, promises these jobs to other
// sleepers.
void end_claim(const core::WorkerFilter &filter, int claimed, const ClaimedQueues &queues);
// Returns whether any session waits for jobs of the queue or is on its way to a claim. Can return true even if there is
// no such session.
bool anybody_waits(std::string_view name);
// Wakes the first sleeper whose filter accepts the lane. Call it if a claim has left a claimable job in the lane. If a
// worker with such a filter is already on its way, or is in the middle of a claim that it can repeat, relies on this
// worker instead of waking a sleeper. Returns true if this worker has waited for the same queues and with the same
// filter as the worker of the current claim, so that its claim will also find the jobs that are left in the other
// queues.
bool wake_next_waiter(std::string_view name, const core::LaneTraits &lane);

// Promises the jobs to other sleepers after the claim was rolled back with its transaction or savepoint. main/jobq.cpp
// calls this function. Raises no error.
void hand_on_failed_claim();

}  // namespace jobq
