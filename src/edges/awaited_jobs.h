// The list of awaited jobs in shared memory: for each database, the jobs to which active edges lead. A session that has
// committed the end of a job checks here whether other jobs wait for that job; if so, it publishes the end to the
// promoter (groups/unblock.h). Few edges of a job are active at a time (groups/edge_ends.h).
//
// The promoter adds a job to the list, and then checks under a later snapshot whether the job has ended. A transaction
// that ends a job first makes its commit visible, and then reads the list. So at least one of them sees the change made
// by the other. If the library is not preloaded, these functions do nothing.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"

namespace jobq {

// The promoter of this database calls the following functions.

// Records that active edges exist in this database. From now on, commits publish the end of every job that ends without
// completing.
void note_awaiting();
// Makes commits publish the end of this job from now on, or the end of every job if the list has no room. Returns false
// if commits already published the end of this job before the call.
bool await_job(int64 job);
void stop_awaiting_job(int64 job);
// Begins a search for all jobs that must be awaited. Jobs that are already in the list stay in it until the search
// ends, so that commits publish the end of such a job even if the search has not reached the job yet.
uint64 begin_awaited_search();
// Ends the search and removes the jobs for which await_job() was not called after the search began.
void end_awaited_search(uint64 search);
// Removes all jobs of a database from the list of awaited jobs.
void forget_awaited_jobs(Oid database);

// A transaction calls the following functions after its commit has become visible.

// Returns whether active edges are known to exist in this database. Costs almost nothing while no database has active
// edges.
bool any_job_awaited();
bool job_is_awaited(int64 job);

// main/jobq.cpp calls these functions to set up and monitor the list in shared memory.
Size awaited_jobs_size();
void make_awaited_jobs(void *memory, bool fresh);
SharedUsage awaited_jobs_usage();

}  // namespace jobq
