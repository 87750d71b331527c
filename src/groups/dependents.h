// Jobs that depend on others (edges/dependencies.h). A dependency that ends otherwise than by completing is looked at
// from the other side: all jobs that depend on it are found by the index.
#pragma once

#include "compat/pg.h"
#include "groups/edge_ends.h"

namespace jobq {

// The functions below are called inside with_spi().

// ---- for groups/edge_ends.cpp

// Keeps the jobs that have ended, and says which of them have failed.
void keep_ended(Ended *ended);
// Looks at the jobs that depend on one of these.
void look_at_dependents_of(const Ended &ended, Unblocking *done);
// Looks at all dependencies of these jobs. Returns how many of the jobs were cancelled.
int64 look_at_dependents(Datum *jobs, int count, Unblocking *done);
// Deactivates the dependencies of these jobs.
void deactivate_dependencies(Datum *jobs, int count);

// ---- for jobs (bigint[]) that have not been blocked by an enqueue

// Those of these jobs that are blocked have an active edge from now on. One in the line of its group leaves it if it
// has reason to wait, and else keeps its place.
void settle_dependents(Datum jobs);
// Those that have none any more, and no group, are set free.
void free_dependents(Datum jobs, TimestampTz now);
// Both for all jobs that are blocked.
void settle_all_dependents(TimestampTz now);
// Before edges that begin at these jobs are followed, which somebody may have changed by hand: waits for who sets one
// of them free, retries it or changes other edges of it, and keeps others from that until the transaction ends. What is
// run from then on sees what those have done. 40001 where it does not, by an older snapshot.
void lock_dependents(Datum jobs);
// After it: those of these jobs that have not started are blocked if they have reason to.
void block_dependents(Datum jobs);
// Whether the job has: a dependency that has yet to finish, or for which it is to be cancelled.
bool has_reason_to_wait(int64 job);

}  // namespace jobq
