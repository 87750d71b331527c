// The workers that sleep in jobq_wait(), and how a commit wakes as few of them as its jobs need.
//
// A sleeper says how many jobs its next claim takes. A commit promises its jobs to sleepers and wakes these; later jobs
// are promised to a sleeper that is already on its way to its claim, as long as that claim has room for them. A claim
// that leaves claimable jobs wakes the next sleeper.
//
// No wake-up is lost:
//  - A sleeper enters itself first, then looks at the table under a fresh snapshot. A commit that is not in that
//    snapshot reads the list afterwards and finds the sleeper.
//  - A worker is promised nothing more once its claim begins, before the claim takes its snapshot. So the claim sees
//    every job that was promised to the worker.
//  - A promise is handed on to another sleeper if the worker is cancelled, terminated, or woken by name; if its claim
//    fails; or if its claim cannot see the promised job, because of another filter or an older snapshot.
//  - A worker that has returned from jobq_wait() and does not claim, for example because its client hangs, counts as on
//    its way for kOnItsWay only. The other sleepers, which look at the table once a second, find its jobs.
//
// Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "core/job.h"
#include "core/wake.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// How long a woken worker counts as on its way to its claim. A wake-up takes about a millisecond.
constexpr core::Micros kOnItsWay = 50 * core::kMillisecond;
// Minimum time between two looks that commits ask a sleeper for.
constexpr core::Micros kLookGap = 10 * core::kMillisecond;

// ---- Functions for the sleeper; a session has at most one.

// Registers this session as a sleeper for a queue of this database. The caller must call leave_waiters() afterward,
// even after an error; if the process exits first, its exit callback does so. `worker` is the core::worker_key, or 0
// for a worker without a name. `batch` is the maximum number of jobs that its next claim takes.
void enter_waiters(std::string_view queue, const core::FilterDigest &digest, int64 worker, int batch);

// Reports that the sleeper has looked. Commits do not wake the sleepers of a paused queue, but a change of the queue's
// settings does.
void update_waiter(bool paused, core::Micros looked_at);

// What has happened since the sleeper entered. Reading it needs no lock; the latch is set after a change.
struct Signals {
    bool job;    // a job was promised to this sleeper
    bool look;   // something changed, so the sleeper must look
    bool woken;  // end_waits() ended the wait
};
Signals waiter_signals();
// Clears the look signal before a look, so that later changes ask for another look.
void forget_look_signal();

// Marks the sleeper as on its way after its look has found a claimable job. `unless_another`: returns false if another
// sleeper with the same filter is already on its way, because one of them is enough.
bool set_out(bool unless_another);

// Ends the sleep. If `claims`, the worker goes to claim what it was promised; otherwise its promise is handed on.
void leave_waiters(bool claims);

// ---- Functions for a claim.

// Makes sure that the worker is promised nothing more. Must be called before the claim takes its snapshot or reads any
// hint in shared memory.
void begin_claim(std::string_view queue, std::string_view worker_id);
// Removes the worker from the list. Returns true if another claim has left a job in the meantime and relied on this
// worker to find it; the caller must then look again, under a new snapshot.
bool leave_after_claim();
// Hands the promise on if a claim with this filter could not see the promised job.
void end_claim(const core::WorkerFilter &filter, int claimed);
// Returns whether any session sleeps for jobs of the queue or is on its way to a claim. May return true in error.
bool anybody_waits(std::string_view queue);
// Wakes the first sleeper that wants the lane, because a job of the lane is left, unless a worker that wants the lane
// is on its way, or claims and can look again.
void wake_next_waiter(std::string_view queue, const core::LaneTraits &lane);

// Hands the promise on after the transaction or a savepoint is rolled back, for main/jobq.cpp. Raises no error.
void hand_on_failed_claim();

// ---- Functions for sessions that wake a worker or list the sleepers.

// Ends the waits of the worker in this database; returns their number.
int end_waits(int64 worker);

// Number of sleeping sessions, for each queue of this database that has any. The array is palloc'd.
struct QueueSleepers {
    QueueName queue;
    int count;
};
QueueSleepers *read_sleepers(int *queues);

// ---- Functions for a commit, called once other sessions can see it. They raise no error. `queue` is zero padded.

// Wakes as many sleepers that want the lane as are needed for this many jobs that have become claimable, longest
// waiting first.
void wake_waiters(const char *queue, const core::LaneTraits &lane, int64 jobs);
// Lets as many sleepers with each filter look as are needed for this many jobs of unknown lanes that may have become
// claimable.
void let_some_waiters_look(const char *queue, int64 jobs);
// Lets all sleepers of a queue look.
void let_waiters_look(const char *queue);
// Lets all sleepers of all queues of this database look.
void let_all_waiters_look();

// Sets up the waiters in shared memory, for main/jobq.cpp.
Size waiters_size();
void make_waiters(void *memory, bool fresh);
SharedUsage waiters_usage();

}  // namespace jobq
