// The list of workers that sleep in jobq_wait(). With this list, a commit wakes only as many workers as its jobs need.
//
// A sleeper announces how many jobs its next claim takes. A commit promises its jobs to sleepers and wakes these
// sleepers. Later commits promise their jobs to a sleeper that has been woken and has not begun its claim yet ("on its
// way"), as long as that claim has room for more jobs. A claim that leaves claimable jobs wakes the next sleeper.
//
// No wake-up is lost:
//  - A sleeper first enters itself into the list, then scans the table for jobs under a new snapshot. A commit that is
//    not in that snapshot reads the list later and finds the sleeper.
//  - Commits promise no more jobs to a worker whose claim has begun. The claim takes its snapshot after that, so it
//    sees every job that was promised to the worker.
//  - The promised jobs are promised to another sleeper instead if the worker is cancelled, terminated, or woken by
//    jobq_wake(); if its claim fails; or if its claim cannot see the promised job, because it has another filter or an
//    older snapshot.
//  - A worker that has returned from jobq_wait() and does not claim, for example because its client hangs, counts as on
//    its way only for kOnItsWay. The other sleepers find the jobs that were promised to it, because each sleeper scans
//    the table once a second.
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
// Minimum time between two scans of the table that commits request from a sleeper.
constexpr core::Micros kLookGap = 10 * core::kMillisecond;

// ---- Functions for the sleeper; a session has at most one.

// Registers this session as a sleeper for a queue of this database. The caller must call leave_waiters() afterward,
// even after an error; if the process exits first, its exit callback does so. `worker` is the core::worker_key, or 0
// for a worker without a name. `batch` is the maximum number of jobs that its next claim takes.
void enter_waiters(std::string_view queue, const core::FilterDigest &digest, int64 worker, int batch);

// Records that the sleeper has scanned the table, and whether it found its queue paused. Commits do not wake the
// sleepers of a paused queue, but a change of the queue's settings does.
void update_waiter(bool paused, core::Micros looked_at);

// Signals that the sleeper has received. Reading them needs no lock. The latch of the sleeper is set after each signal.
struct Signals {
    bool job;    // a job was promised to this sleeper
    bool look;   // something changed, so the sleeper must scan the table
    bool woken;  // end_waits() ended the wait
};
Signals waiter_signals();
// Clears Signals::look. Call it before a scan of the table, so that later changes request another scan.
void forget_look_signal();

// Marks the sleeper as on its way after its scan has found a claimable job. If `unless_another`, returns false instead
// when another sleeper with the same filter is already on its way, because one such sleeper is enough.
bool set_out(bool unless_another);

// Ends the sleep. If `claims`, the worker is going to claim the jobs that it was promised; otherwise, these jobs are
// promised to other sleepers.
void leave_waiters(bool claims);

// ---- Functions for a claim.

// Stops commits from promising more jobs to this worker. Must be called before the claim takes its snapshot or reads
// any hint in shared memory.
void begin_claim(std::string_view queue, std::string_view worker_id);
// Removes the worker from the list. Returns true if another claim has left a claimable job in the meantime and relies
// on this worker to find it; the caller must then claim again, under a new snapshot.
bool leave_after_claim();
// Promises the jobs to other sleepers if a claim with this filter could not see the jobs that this worker was promised.
void end_claim(const core::WorkerFilter &filter, int claimed);
// Returns whether any session waits for jobs of the queue or is on its way to a claim. May return true although there
// is none.
bool anybody_waits(std::string_view queue);
// Wakes the first sleeper whose filter accepts the lane, because a claim has left a job of the lane. Does nothing if
// such a worker is already on its way, or is in the middle of a claim that it can repeat.
void wake_next_waiter(std::string_view queue, const core::LaneTraits &lane);

// Promises the jobs to other sleepers after the claim was rolled back with its transaction or savepoint. For
// main/jobq.cpp. Raises no error.
void hand_on_failed_claim();

// ---- Functions for sessions that wake a worker or list the sleepers.

// Ends the waits of the worker in this database and returns the number of these waits.
int end_waits(int64 worker);

// Number of sleeping sessions, for each queue of this database that has any. The array is palloc'd.
struct QueueSleepers {
    QueueName queue;
    int count;
};
QueueSleepers *read_sleepers(int *queues);

// ---- Functions for a commit, called once other sessions can see it. They raise no error. `queue` is zero padded.

// Wakes as many sleepers as are needed for this many jobs of the lane that have become claimable: sleepers whose filter
// accepts the lane, in the order in which they began to wait.
void wake_waiters(const char *queue, const core::LaneTraits &lane, int64 jobs);
// Makes sleepers scan the table, because this many jobs of unknown lanes may have become claimable: for each filter, as
// many sleepers as are needed for this number of jobs.
void let_some_waiters_look(const char *queue, int64 jobs);
// Makes all sleepers of a queue scan the table.
void let_waiters_look(const char *queue);
// Makes all sleepers of all queues of this database scan the table.
void let_all_waiters_look();

// Sets up the waiters in shared memory, for main/jobq.cpp.
Size waiters_size();
void make_waiters(void *memory, bool fresh);
SharedUsage waiters_usage();

}  // namespace jobq
