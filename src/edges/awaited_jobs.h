// Which jobs the promoter of each database (groups/unblock.h) waits for, because active edges lead to them: a commit
// that has ended a job looks here whether any job waits for it. Few edges of a job are active at a time
// (groups/edge_ends.h).
//
// The order that loses nothing: the promoter enters a job here, then looks at it under a later snapshot. A commit is
// visible first and looks here then. So one of the two notices. Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"

namespace jobq {

// ---- for the promoter of this database

// Notes that active edges exist in this database. From now on commits tell of each end other than a completion.
void note_awaiting();
// Makes commits tell of this job from now on; of every job if there is no room. Returns false if they did already.
bool await_job(int64 job);
void stop_awaiting_job(int64 job);
// Begins a search for all jobs that must be awaited. Until it ends, jobs that have been awaited before stay so, because
// commits that end them must not go unnoticed until the search reaches them.
uint64 begin_awaiting_anew();
// Ends the search: jobs that have not been awaited again since it began are no longer awaited.
void end_awaiting_anew(uint64 search);
// Forgets all that is awaited in a database.
void forget_awaited_jobs(Oid database);

// ---- for a commit, once everybody can see it

// Returns whether active edges are known to exist in this database. Costs next to nothing while none exist anywhere.
bool any_job_awaited();
bool job_is_awaited(int64 job);

// For main/jobq.cpp: its part of the shared memory.
Size awaited_jobs_size();
void make_awaited_jobs(void *memory, bool fresh);

}  // namespace jobq
