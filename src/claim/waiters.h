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
#include "job/job_policy.h"
#include "wait/wake_policy.h"

#include <string_view>

namespace jobq {

// How long a worker that was woken counts as on its way to its claim. A wake-up takes about a millisecond.
constexpr core::Micros kOnItsWay = 50 * core::kMillisecond;
// Minimum time between two looks of a sleeper that commits ask for.
constexpr core::Micros kLookGap = 10 * core::kMillisecond;

// ---- for the sleeper: one at a time per session

// Enters this session as a sleeper of a queue of this database. leave_waiters() must follow, also after an error; the
// exit callback of the process calls it otherwise. `worker`: core::worker_key, or 0 for a worker without a name.
// `batch`: how many jobs its claim takes.
void enter_waiters(std::string_view queue, const core::FilterDigest &digest, int64 worker, int batch);

// Reports a look. Commits do not wake the sleepers of a paused queue; a change of the queue's settings does.
void update_waiter(bool paused, core::Micros looked_at);

// What happened since. Needs no lock; the latch is set after it changes.
struct Signals {
    bool job;    // a job was promised to this sleeper
    bool look;   // something changed: the sleeper must look
    bool woken;  // by end_waits
};
Signals waiter_signals();
// Before a look: what happens from here on asks for another one.
void forget_look_signal();

// A look found a claimable job: the sleeper is on its way from here on. `unless_another`: returns false if another
// sleeper with the same filter is already on its way, because one of them is enough.
bool set_out(bool unless_another);

// The sleep ends. `claims`: the worker goes to claim what it was promised. Otherwise its promise is handed on.
void leave_waiters(bool claims);

// ---- for a claim

// The worker is promised nothing more. Must be called before the claim takes its snapshot or reads any hint in shared
// memory.
void begin_claim(std::string_view queue, std::string_view worker_id);
// Takes the worker off the list. Returns true if another claim has left a job in the meantime and has relied on this
// worker to find it: the caller must look again, under a new snapshot.
bool leave_after_claim();
// Hands the promise on if a claim with this filter could not see the promised job.
void end_claim(const core::WorkerFilter &filter, int claimed);
// Whether any session sleeps for jobs of the queue or is on its way. May return true in error.
bool anybody_waits(std::string_view queue);
// A job of the lane is left: wakes the first sleeper who wants it, unless a worker who wants it is on its way, or
// claims and can look again.
void wake_next_waiter(std::string_view queue, const core::LaneTraits &lane);

// For main/jobq.cpp: the transaction is rolled back, or a savepoint. Raises no error.
void hand_on_failed_claim();

// ---- for sessions that wake a worker

// Ends the waits of the worker in this database; returns how many there are.
int end_waits(int64 worker);

// How many sessions sleep, for each queue of this database that has any; palloc'd.
struct QueueSleepers {
    QueueName queue;
    int count;
};
QueueSleepers *read_sleepers(int *queues);

// ---- for a commit, once other sessions can see it: none of these raises an error. `queue` is zero padded.

// This many jobs of a lane became claimable: wakes as many sleepers who want them as are needed, the longest waiting
// first.
void wake_waiters(const char *queue, const core::LaneTraits &lane, int64 jobs);
// This many jobs of unknown lanes may have become claimable: of the sleepers with each filter, lets as many look as are
// needed.
void let_some_waiters_look(const char *queue, int64 jobs);
// Lets all sleepers of a queue look.
void let_waiters_look(const char *queue);
// The same for all queues of this database.
void let_all_waiters_look();

// For main/jobq.cpp: its part of the shared memory.
Size waiters_size();
void make_waiters(void *memory, bool fresh);

}  // namespace jobq
