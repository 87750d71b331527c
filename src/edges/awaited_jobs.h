// Which jobs the promoter of each database (groups/unblock.h) waits for, because others depend on them or await them: a
// commit that has ended a job looks here whether anybody cares. One of many dependencies is enough for each job that
// waits (groups/dependents.h), and one of many jobs for each that awaits all of them (groups/job_ends.h), so these are
// few.
//
// The order that loses nothing: the promoter enters a job here, then looks at it under a later snapshot. A commit is
// visible first and looks here then. So one of the two notices. Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"

namespace jobq {

// For whom a job is awaited. Each has its own entries.
enum class Audience : uint8 { Dependents, Waiters };
using Audiences = uint32;  // a bit for each
constexpr Audiences bit_of(Audience audience) { return 1U << static_cast<int>(audience); }

// ---- for the promoter of this database

// Some jobs of this database depend on others, or await them. Of dependents whoever ends a job other than by completing
// it must tell of it.
void note_awaiting(Audience audience);
// Commits tell of this job from now on. No room: of every job. False when they did already.
bool await_job(Audience audience, int64 job);
void stop_awaiting_job(Audience audience, int64 job);
// A search for all that is to be awaited begins. Meanwhile what was awaited stays so: commits that complete those jobs
// shall not go unnoticed until the search comes by.
uint64 begin_awaiting_anew();
// It has come to its end: what nobody has awaited since it began is awaited no more.
void end_awaiting_anew(Audience audience, uint64 search);
// Nothing is awaited in this database any more, nor known of it; by this audience.
void forget_awaited_jobs(Oid database);
void forget_awaited_jobs(Audience audience);

// ---- for a commit, once everybody can see it

// Who awaits anything in this database, as far as is known.
Audiences audiences_noted();
bool job_is_awaited(int64 job);

// For main/jobq.cpp: its part of the shared memory.
Size awaited_jobs_size();
void make_awaited_jobs(void *memory, bool fresh);

}  // namespace jobq
