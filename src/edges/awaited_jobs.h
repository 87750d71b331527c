// The jobs for whose end the promoter of each database (groups/unblock.h) waits, because active edges lead to them. A
// commit that has ended a job looks here whether any job waits for it. Few edges of a job are active at a time
// (groups/edge_ends.h).
//
// The promoter enters a job here, and then looks under a later snapshot whether the job has ended. A commit becomes
// visible first, and then looks here. So one of the two notices the other. Without preload, all of this does nothing.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"

namespace jobq {

// ---- for the promoter of this database

// Notes that active edges exist in this database. From now on, commits publish each end other than a completion.
void note_awaiting();
// Makes commits publish the end of this job from now on, or the end of every job if there is no room. Returns false if
// they did already.
bool await_job(int64 job);
void stop_awaiting_job(int64 job);
// Begins a search for all jobs that must be awaited. Until it ends, jobs that have been awaited before stay so, because
// commits that end them must not go unnoticed until the search reaches them.
uint64 begin_awaited_search();
// Ends the search: jobs that have not been awaited again since it began are no longer awaited.
void end_awaited_search(uint64 search);
// Removes all awaited jobs of a database.
void forget_awaited_jobs(Oid database);

// ---- for a commit, after it has become visible

// Returns whether active edges are known to exist in this database. Costs next to nothing while none exist anywhere.
bool any_job_awaited();
bool job_is_awaited(int64 job);

// For main/jobq.cpp: its part of the shared memory.
Size awaited_jobs_size();
void make_awaited_jobs(void *memory, bool fresh);
SharedUsage awaited_jobs_usage();

}  // namespace jobq
