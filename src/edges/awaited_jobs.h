// The list of awaited jobs in shared memory: the jobs of each database to which active edges lead. A session that has
// committed the end of a job checks here whether other jobs wait for that job; if so, it publishes the end to the
// promoter (groups/unblock.h). Few edges of a job are active at a time (groups/edge_ends.h).
//
// The promoter adds a job to the list, and then checks under a later snapshot whether the job has ended. A transaction
// that ends a job first makes its commit visible, and then reads the list. So at least one of the two sees the change
// of the other. Without preload, these functions do nothing.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"

namespace jobq {

// ---- for the promoter of this database

// Records that active edges exist in this database. From now on, commits publish every end of a job except a
// completion.
void note_awaiting();
// Makes commits publish the end of this job from now on, or the end of every job if there is no room. Returns false if
// commits published it already.
bool await_job(int64 job);
void stop_awaiting_job(int64 job);
// Begins a search for all jobs that must be awaited. Jobs that were in the list before stay in it until the search
// ends, so that commits that end them are published before the search reaches them.
uint64 begin_awaited_search();
// Ends the search and removes the jobs that await_job() was not called for since the search began.
void end_awaited_search(uint64 search);
// Removes all awaited jobs of a database.
void forget_awaited_jobs(Oid database);

// ---- for a transaction whose commit has become visible

// Returns whether active edges are known to exist in this database. Costs next to nothing while no database has active
// edges.
bool any_job_awaited();
bool job_is_awaited(int64 job);

// Set up the list in shared memory, for main/jobq.cpp.
Size awaited_jobs_size();
void make_awaited_jobs(void *memory, bool fresh);
SharedUsage awaited_jobs_usage();

}  // namespace jobq
