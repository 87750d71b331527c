// Jobs that wait for others (edges/dependencies.h). Of each of them one edge is active, to an unfinished
// dependency, the one with the highest id at first; when that has finished, the next lower one that has not. So each
// edge is looked at once, however many jobs wait for however many others. A dependency that ends otherwise than by
// completing is looked at from the other side: all jobs that depend on it are found by the index.
#pragma once

#include "compat/pg.h"
#include "groups/unblock.h"

namespace jobq {

// For groups/unblock.cpp. A key is the job that others depend on, or minus a job all of whose dependencies are to be
// looked at.
void look_at_dependencies(const Unblocked *told, int count, Unblocking *done);
bool search_dependents(SearchPlace *place, int limit, Unblocking *done);

// Those below are called inside with_spi(), when jobs (bigint[]) have not been blocked by an enqueue.

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
