// The list of sessions that sleep in jobq_wait_job(). With this list, a commit wakes the sessions that wait for the
// jobs that it has finished.
//
// No wake-up is lost: a sleeper first enters itself into the list, then reads the job under a new snapshot. A commit
// that is not in that snapshot reads the list later and finds the sleeper. While no session waits, a commit reads only
// one number. If the library is not preloaded, all of these functions do nothing.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"

namespace jobq {

// ---- Functions for a sleeping session, which has only one entry in the list.

// Enters this session into the list as waiting for a job of this database. The caller must call leave_job_waiters()
// afterward, even after an error; if the process exits first, its exit callback calls leave_job_waiters().
void enter_job_waiters(int64 job);
void leave_job_waiters();

// Returns whether the job might have finished. If so, the sleeper must read the job again. Needs no lock. The latch of
// the sleeper is set after the signal.
bool job_waiter_signalled();
// Clears the signal. Call it before reading the job, so that a later change sets the signal again.
void forget_job_signal();

// ---- Functions for a commit, called when other sessions can see the commit. They raise no error.

// Wakes the sessions that wait for these jobs, which have finished or were deleted.
void wake_job_waiters(const int64 *jobs, int count);
// Wakes all sessions that wait for a job of this database. Call it if any of these jobs might have finished.
void let_all_job_waiters_look();

// main/jobq.cpp calls these functions to set up the list of waiters in shared memory and to report its usage.
Size job_waiters_size();
void make_job_waiters(void *memory, bool fresh);
SharedUsage job_waiters_usage();

}  // namespace jobq
