// Handles blocked jobs with edges (edges/edges.h) and jobs that await a signal. When the target of an active edge ends,
// or the signal arrives, the promoter checks whether the job must be unblocked. A job that depends on other jobs, or
// awaits all of several jobs, has one active edge: the edge to the unfinished target with the highest id. When that
// target has ended, the edge to the unfinished target with the next lower id becomes active. So the promoter handles
// each edge only once, regardless of how many edges a job has. The functions in dependents.h and awaiters.h decide what
// happens to a job.
//
// The promoter adds a target to the list of awaited jobs (edges/awaited_jobs.h), and then checks under a later snapshot
// whether the target has ended. When a transaction ends a job, it first makes its commit visible, and then checks
// whether the job is in the list. So either the promoter or the transaction sees the change made by the other, or both
// do. In the same way, a commit that makes a job wait publishes the job, and a commit that sends a signal publishes the
// signal. The check that follows the later of the two commits sees both changes.
#pragma once

#include "compat/pg.h"
#include "groups/unblock.h"

namespace jobq {

// ---- Functions for groups/unblock.cpp

void look_at_edges(const Unblocked *published, int count, Unblocking *done);
void look_at_signals(const Unblocked *published, int count, Unblocking *done);
// Searches the table for jobs that wait for other jobs or for signals.
bool search_edges(SearchPlace *place, int limit, Unblocking *done);

// ---- Declarations for groups/dependents.cpp and groups/awaiters.cpp, to be used inside with_spi()

struct Ended {
    Datum *jobs;
    Datum *failed;  // boolean: the job has not completed
    Datum *first;   // bigint: the lowest id of the awaiting jobs to check
    int count;
};

// Adds the targets of the active edges of the given jobs (bigint[]) to the list of awaited jobs, so that a transaction
// that ends a target publishes the end when it commits.
void watch_targets(Datum jobs);

}  // namespace jobq
