// Unblocks or cancels jobs that depend on other jobs (edges/dependencies.h). If a dependency ends without completing,
// an index is used to find all jobs that depend on it, including jobs whose edges to the dependency are inactive.
#pragma once

#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// Call the functions below inside with_spi().

// ---- Functions for groups/edge_ends.cpp

// Removes from `ended` the jobs that have not ended, and sets `failed` for the remaining jobs.
void keep_ended(Ended *ended);
// Unblocks or cancels the jobs that depend on any of these finished jobs.
void look_at_dependents_of(const Ended &ended, Unblocking *done);
// Unblocks or cancels each of these jobs if the state of its dependencies requires it. Returns the number of canceled
// jobs.
int64 look_at_dependents(Datum *jobs, int count, Unblocking *done);
// Deactivates the edges from these jobs to their dependencies.
void deactivate_dependencies(Datum *jobs, int count);

// ---- Functions for jobs (bigint[]) that are retried or whose edges are changed with plain SQL

// For each of the given jobs that is blocked, activates one of its dependencies. Removes a job from the line of its
// group if the job has a reason to wait (see has_reason_to_wait()).
void settle_dependents(Datum jobs);
// Unblocks the given jobs that no longer have dependencies and are not in the line of a group.
void free_dependents(Datum jobs, TimestampTz now);
// Calls settle_dependents() and free_dependents() for all blocked jobs.
void settle_all_dependents(TimestampTz now);
// Locks the given jobs. Call it before reading their edges, because plain SQL might have changed the edges. Waits for
// sessions that are unblocking or retrying one of the jobs or changing its edges, and keeps other sessions from doing
// so until the transaction ends. Later statements of this transaction see the changes made by the sessions for which
// this function has waited. Raises 40001 if the transaction's snapshot is too old to show these changes.
void lock_dependents(Datum jobs);
// Blocks the given jobs that have not started and have a reason to wait. Call lock_dependents() first.
void block_dependents(Datum jobs);
// Returns whether the job has a reason to wait: a dependency that has not finished, or a failed dependency because of
// which the job must be canceled.
bool has_reason_to_wait(int64 job);

}  // namespace jobq
