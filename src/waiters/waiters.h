// The list of workers that sleep in jobq_wait() or jobq_wait_any(). With this list, a commit wakes only as many workers
// as its jobs need.
//
// A sleeper announces how many jobs its next claim takes. A commit promises its jobs to sleepers and wakes these
// sleepers. Later commits promise their jobs to a sleeper that has been woken and has not begun its claim yet ("on its
// way"), as long as that claim has room for more jobs. A claim that leaves claimable jobs wakes the next sleeper. While
// such wake-ups are useless, one sleeper scans the table at short intervals instead (lookout.h).
//
// No wake-up is lost:
//  - A sleeper first enters itself into the list, then scans the table for jobs under a new snapshot. A commit that is
//    not in that snapshot reads the list later and finds the sleeper.
//  - Commits promise no more jobs to a worker whose claim has begun. The claim takes its snapshot afterward, so it sees
//    every job that was promised to the worker.
//  - The promised jobs are promised to another sleeper instead if the worker is canceled, terminated, or woken by
//    jobq_wake(); if its claim fails; or if its claim cannot see the promised jobs, because it has a different filter
//    or an older snapshot.
//  - A worker that waits for several queues has one entry, which lists the queues. Its claim, or the sessions to which
//    its jobs are promised instead, check each of these queues in which a job was promised to the worker or left to it.
//    A claim that has taken as many jobs as it wanted checks the queues that it has not read. If the claim does not
//    name some of the queues, other sleepers check these queues.
//  - A worker that has returned from jobq_wait() and does not claim, for example because its client hangs, counts as on
//    its way only for kOnItsWay. The other sleepers find the jobs that were promised to this worker, because each
//    sleeper scans the table once a second.
//
// claims.h declares the functions for a claim. If the library is not preloaded, all of these functions do nothing.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "core/job.h"
#include "core/wake.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// How long a worker that was woken is assumed to be about to claim jobs. A wake-up takes about a millisecond.
constexpr core::Micros kOnItsWay = 50 * core::kMillisecond;
// Minimum time between two scans of the table that commits request from a sleeper.
constexpr core::Micros kLookGap = 10 * core::kMillisecond;

// ---- Functions for a sleeping session, which has only one entry in the list.

// The queues for which a session waits. `names` contains first the names that the caller of the wait has given, and
// then the names of known queues that the patterns select. A queue in `excluded` does not belong to the queues even if
// a pattern matches its name. For any other queue, the first pattern that matches its name decides.
struct WaitedQueues {
    const std::string_view *names;
    int count;
    int named;  // number of names that the caller has given
    const std::string_view *patterns;
    const bool *pattern_excludes;  // for each pattern, whether its queues do not belong to the queues
    int pattern_count;
    const std::string_view *excluded;
    int excluded_count;
    Oid user;  // the role for which the patterns select queues
    bool waits_for_several() const { return named != 1 || pattern_count > 0; }
};

// Registers this session as a sleeper for queues of this database. The caller must call leave_waiters() afterward, even
// after an error; if the process exits first, its exit callback removes the session from the list. `worker` is the
// core::worker_key, or 0 for a worker without a name. `batch` is the maximum number of jobs in the worker's next claim.
void enter_waiters(const WaitedQueues &queues, const core::FilterDigest &digest, int64 worker, int batch);

// Records that the sleeper is about to scan the table, which of its queues are paused, and which queues match its
// patterns now. `paused` has one element for each element of queues.names. Commits do not wake the sleepers of a paused
// queue, but a change of the queue's settings does.
void update_waiter(const WaitedQueues &queues, const bool *paused, core::Micros looked_at);

// The signals that the sleeper has received. Reading the signals needs no lock. The latch of the sleeper is set after
// each signal.
struct Signals {
    bool job;      // a job was promised to this sleeper
    bool look;     // something changed, so the sleeper must scan the table
    bool woken;    // end_waits() ended the wait
    bool lookout;  // this session is the lookout, so it must scan the table after kLookoutGap (see lookout.h)
};
Signals waiter_signals();

// Marks the sleeper as on its way after its scan has found a claimable job in the queue. If `unless_another` is true
// and another sleeper with the same queues and filter is already on its way, returns false instead, because one such
// sleeper is enough.
bool set_out(std::string_view queue, bool unless_another);

// Ends the sleep. If `claims` is true, the worker is going to claim the jobs that were promised to it. Otherwise, these
// jobs are promised to other sleepers.
void leave_waiters(bool claims);

// ---- Functions for sessions that wake a worker or list the sleepers.

// Ends the waits of the worker in this database and returns the number of these waits.
int end_waits(int64 worker);

// Number of sleeping sessions that wait for jobs of one queue, for each queue of this database that has any. The array
// is palloc'd. Does not count the sessions that wait for several queues.
struct QueueSleepers {
    QueueName queue;
    int count;
};
QueueSleepers *read_sleepers(int *queues);
// Returns the core::worker_keys of the named workers of this database that have a sleeping session, in ascending order.
// The array is palloc'd.
int64 *read_waiting_workers(int *count);

// Number of sleeping sessions that wait for jobs of the queue, and how many of them also wait for other queues.
struct SleeperCount {
    int all;
    int several;
};
SleeperCount count_sleepers(std::string_view queue_name);

// ---- Functions for a commit, called when other sessions can see the commit. They raise no error. `queue` is
// zero-padded.

// Call this function when `jobs` jobs of the lane have become claimable. Wakes as many sleepers as these jobs need:
// sleepers whose filter accepts the lane, in the order in which they began to wait. Sleepers that wait only for this
// queue come first.
void wake_waiters(const char *name, const core::LaneTraits &lane, int64 jobs);
// Makes sleepers scan the table: for each filter, as many sleepers as are needed for `jobs` jobs. Call it if this
// number of jobs might have become claimable and their lanes are unknown.
void let_some_waiters_look(const char *name, int64 jobs);
// Makes all sleepers of a queue scan the table.
void let_waiters_look(const char *name);
// Makes all sleepers of all queues of this database scan the table.
void let_all_waiters_look();

// main/jobq.cpp calls these functions to set up the list of waiters in shared memory and to report its usage.
constexpr int kWaiterPartitions = kLockPartitions + 1;
Size waiters_size();
void make_waiters(void *memory, bool fresh);
SharedUsage waiters_usage();

}  // namespace jobq
