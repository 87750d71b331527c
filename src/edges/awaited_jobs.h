// Which jobs the promoter of each database waits for because others depend on them: a commit that has completed a job
// looks here whether anybody cares. One of many dependencies is enough for each job that waits (groups/dependents.h),
// so these are few.
//
// The order that loses nothing: the promoter enters a job here, then looks at it under a later snapshot. A commit is
// visible first and looks here then. So one of the two notices. Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"

namespace jobq {

// ---- for the promoter of this database

// Some jobs of this database depend on others: whoever ends a job other than by completing it must tell of it.
void note_dependencies();
// Commits tell of this job from now on. No room: of every job. False when they did already.
bool await_job(int64 job);
void stop_awaiting_job(int64 job);
// A search for all that is to be awaited begins. Meanwhile what was awaited stays so: commits that complete those jobs
// shall not go unnoticed until the search comes by.
uint64 begin_awaiting_anew();
// It has come to its end: what nobody has awaited since it began is awaited no more.
void end_awaiting_anew(uint64 search);
// Nothing is awaited in this database any more, nor known of it.
void forget_awaited_jobs(Oid database);

// ---- for a commit, once everybody can see it

// Whether anything depends on anything, as far as is known.
bool dependencies_noted();
bool job_is_awaited(int64 job);

// For shmem/memory.cpp.
Size awaited_jobs_size();
void make_awaited_jobs(void *memory, bool fresh);

}  // namespace jobq
