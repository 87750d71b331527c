// Jobs that depend on others (edges/dependencies.h). If a dependency ends without completing, an index finds all jobs
// that depend on it, whichever of their edges are active.
#pragma once

#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// The functions below are called inside with_spi().

// ---- for groups/edge_ends.cpp

// Removes the jobs that have not ended, and sets which of the others have failed.
void keep_ended(Ended *ended);
// Unblocks or cancels the jobs that depend on one of these ended jobs.
void look_at_dependents_of(const Ended &ended, Unblocking *done);
// Looks at all dependencies of these jobs. Returns how many of the jobs were cancelled.
int64 look_at_dependents(Datum *jobs, int count, Unblocking *done);
// Deactivates the dependencies of these jobs.
void deactivate_dependencies(Datum *jobs, int count);

// ---- for jobs (bigint[]) that were blocked otherwise than by an enqueue

// Gives an active edge to each of these jobs that is blocked. A job in the line of its group leaves the line if it has
// a reason to wait, and otherwise keeps its place.
void settle_dependents(Datum jobs);
// Unblocks the jobs that have no dependencies any more and are not in the line of a group.
void free_dependents(Datum jobs, TimestampTz now);
// Does both for all blocked jobs.
void settle_all_dependents(TimestampTz now);
// Call this before following the edges of these jobs, because plain SQL may have changed them. Waits for sessions that
// unblock or retry one of the jobs or change its edges, and keeps other sessions from doing so until the transaction
// ends. Statements that run afterwards see what those sessions have done. Raises 40001 if they cannot, because the
// snapshot is older.
void lock_dependents(Datum jobs);
// After lock_dependents(): blocks the jobs that have not started and have a reason to wait.
void block_dependents(Datum jobs);
// Returns whether the job has a reason to wait: a dependency that has not finished, or a failed dependency that must
// cancel the job.
bool has_reason_to_wait(int64 job);

}  // namespace jobq
