// Blocked jobs with edges (edges/edges.h), and jobs that await a signal: when the target of an active edge ends, or the
// signal comes, the job is looked at. Of a job that depends on others, or awaits all of some, one edge is active: the
// edge to the unfinished target with the highest id. When that job has ended, the edge to the next lower unfinished one
// becomes active. So each target is looked at once, however many jobs wait for however many others. What is decided
// then stands in dependents.h and awaiters.h.
//
// The promoter enters a target in edges/awaited_jobs.h, and then looks under a later snapshot whether it has ended. A
// commit that ends a job is visible first, and looks there then. So one of the two notices the other. In the same way a
// commit that makes a job wait tells of the job, and a commit that sends a signal tells of the event: the look that
// follows the later commit sees both.
#pragma once

#include "compat/pg.h"
#include "groups/unblock.h"

namespace jobq {

// ---- for groups/unblock.cpp

void look_at_edges(const Unblocked *told, int count, Unblocking *done);
void look_at_events(const Unblocked *told, int count, Unblocking *done);
// Searches for all jobs that wait for others or for signals.
bool search_edges(SearchPlace *place, int limit, Unblocking *done);

// ---- for groups/dependents.cpp and groups/awaiters.cpp, inside with_spi()

// Jobs that have ended.
struct Ended {
    Datum *jobs;
    Datum *failed;  // boolean: the job has not completed
    Datum *first;   // bigint: the lowest id of the jobs that await it and are to be looked at
    int count;
};

// Makes commits tell of the ends of the jobs to which active edges of these jobs (bigint[]) lead.
void watch_targets(Datum jobs);

}  // namespace jobq
