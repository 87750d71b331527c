// Blocked jobs with edges (edges/edges.h), and jobs that await a signal. When the target of an active edge ends, or the
// signal arrives, the promoter looks at the job. A job that depends on others, or awaits all of several jobs, has one
// active edge: the edge to the unfinished target with the highest id. When that target has ended, the edge to the next
// lower unfinished one becomes active. So each target is looked at once, however many jobs wait for however many
// others. dependents.h and awaiters.h decide what happens to a job.
//
// The promoter enters a target in edges/awaited_jobs.h, and then looks under a later snapshot whether the target has
// ended. A commit that ends a job becomes visible first, and then looks into edges/awaited_jobs.h. So one of the two
// notices the other. In the same way, a commit that makes a job wait publishes the job, and a commit that sends a
// signal publishes the event: the look that follows the later commit sees both.
#pragma once

#include "compat/pg.h"
#include "groups/unblock.h"

namespace jobq {

// ---- for groups/unblock.cpp

void look_at_edges(const Unblocked *published, int count, Unblocking *done);
void look_at_events(const Unblocked *published, int count, Unblocking *done);
// Searches for all jobs that wait for others or for signals.
bool search_edges(SearchPlace *place, int limit, Unblocking *done);

// ---- for groups/dependents.cpp and groups/awaiters.cpp, inside with_spi()

// Jobs that have ended.
struct Ended {
    Datum *jobs;
    Datum *failed;  // boolean: the job has not completed
    Datum *first;   // bigint: the lowest id of the awaiting jobs to look at
    int count;
};

// Makes commits publish the ends of the targets of the active edges of these jobs (bigint[]).
void watch_targets(Datum jobs);

}  // namespace jobq
