// The workers that sleep in jobq_wait(), and how a commit wakes as many of them as it made jobs claimable.
//
// No wake-up is lost between a sleeper's look and its sleep: it enters itself first, then looks at the table under a
// fresh snapshot. A commit that is not in that snapshot tells the waiters afterwards, and finds it. Without preload all
// of this does nothing.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "wait/wake_policy.h"

#include <string_view>

namespace jobq {

// ---- for the sleeper: one at a time per session

// Enters this session as a sleeper of a queue of this database. leave_waiters() must follow, also after an error; when
// the process ends it is called by itself. `worker`: core::worker_key, or 0 for a worker without a name.
void enter_waiters(std::string_view queue, const core::FilterDigest &digest, int64 worker);

// A paused queue's sleepers are woken only when the queue's settings change.
void update_waiter(bool paused);

// What happened since. Needs no lock; the latch is set after it changes.
struct Signals {
    bool job;    // one job is ours, unless somebody who did not wait takes it first
    bool look;   // something changed: look for yourself
    bool woken;  // by end_waits
};
Signals waiter_signals();
// Before a look: what happens from here on asks for another one.
void forget_look_signal();

// `served`: the sleeper goes to claim. Otherwise a job that was meant for it is passed on to another one.
void leave_waiters(bool served);

// ---- for who wakes a worker

// Ends the waits of the worker in this database; returns how many there are.
int end_waits(int64 worker);

// How many sleep, of each queue of this database that anybody waits for; palloc'd.
struct QueueSleepers {
    QueueName queue;
    int count;
};
QueueSleepers *read_sleepers(int *queues);

// ---- for a commit, once everybody can see it: none of these raises an error. `queue` is zero padded.

// So many jobs of a lane became claimable: wakes as many sleepers who want them, the longest waiting first.
void wake_waiters(const char *queue, const core::LaneTraits &lane, int64 jobs);
// Lets all sleepers of a queue look for themselves.
void let_waiters_look(const char *queue);
// The same for all queues of this database.
void let_all_waiters_look();

// For main/jobq.cpp: its part of the shared memory.
Size waiters_size();
void make_waiters(void *memory, bool fresh);

}  // namespace jobq
