// The sessions that sleep in jobq_wait_job(), and how a commit wakes those who wait for the jobs that it finished.
//
// No wake-up is lost: a sleeper enters itself first, then looks at the job under a fresh snapshot. A commit that is not
// in that snapshot looks at the sleepers afterwards, and finds it. A commit whose jobs nobody waits for reads one
// number. Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"

namespace jobq {

// ---- for the sleeper: one at a time per session

// Enters this session as waiting for a job of this database. leave_job_waiters() must follow, also after an error; when
// the process ends it is called by itself.
void enter_job_waiters(int64 job);
void leave_job_waiters();

// Whether the job may have finished: look. Needs no lock; the latch is set after it changes.
bool job_waiter_signalled();
// Before a look: what happens from here on asks for another one.
void forget_job_signal();

// ---- for a commit, once everybody can see it: none of these raises an error

// These jobs have finished or gone.
void wake_job_waiters(const int64 *jobs, int count);
// Any job of this database may have.
void let_all_job_waiters_look();

// For main/jobq.cpp: its part of the shared memory.
Size job_waiters_size();
void make_job_waiters(void *memory, bool fresh);

}  // namespace jobq
