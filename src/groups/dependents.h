// Unblocks or cancels jobs that depend on other jobs (edges/dependencies.h). If a dependency ends without completing,
// all jobs that depend on it are found by an index, even if their edges to it are inactive.
#pragma once

#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// The functions below are called inside with_spi().

// ---- for groups/edge_ends.cpp

// Removes the jobs that have not ended from `ended`, and sets `failed` for the others.
void keep_ended(Ended *ended);
// Unblocks or cancels the jobs that depend on one of these ended jobs.
void look_at_dependents_of(const Ended &ended, Unblocking *done);
// Unblocks or cancels these jobs if their dependencies allow or require it. Returns the number of cancelled jobs.
int64 look_at_dependents(Datum *jobs, int count, Unblocking *done);
// Makes the edges from these jobs to their dependencies inactive.
void deactivate_dependencies(Datum *jobs, int count);

// ---- for jobs (bigint[]) that did not become blocked by an enqueue

// Activates one dependency of each of these jobs that is blocked. Removes a job from the line of its group if the job
// has a reason to wait (see has_reason_to_wait()).
void settle_dependents(Datum jobs);
// Unblocks the given jobs that no longer have dependencies and are not in the line of a group.
void free_dependents(Datum jobs, TimestampTz now);
// Calls settle_dependents() and free_dependents() for all blocked jobs.
void settle_all_dependents(TimestampTz now);
// Locks these jobs before the caller reads their edges, because plain SQL may have changed the edges. Waits for
// sessions that unblock or retry one of the jobs or change its edges, and keeps other sessions from doing so until the
// transaction ends. Later statements of this transaction see what those sessions have done; raises 40001 if the
// transaction's snapshot is too old for this.
void lock_dependents(Datum jobs);
// Blocks the given jobs that have not started and have a reason to wait. Call lock_dependents() first.
void block_dependents(Datum jobs);
// Returns whether the job has a reason to wait, which is a dependency that has not finished or a failed dependency
// because of which the job must be cancelled.
bool has_reason_to_wait(int64 job);

}  // namespace jobq
