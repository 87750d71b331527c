// The chain of jobs that a blocked job waits for: dependencies, jobs that it awaits, and the jobs before it in its
// group; then what these wait for, and so on. Used by admin/explain.cpp. Inside with_spi(); changes nothing.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Maximum number of jobs that a walk visits, so that a long chain does not keep the caller waiting.
constexpr int kVisitedJobs = 1000;

struct Chain {
    int64 *roots;  // jobs of the chain that wait for no other job, the nearest first; palloc'd
    int root_count;
    bool deep;        // the job does not wait directly for one of the roots
    int64 unvisited;  // the first job that was found when the walk had visited kVisitedJobs; 0: the walk is complete
    bool any;         // the job waits for other jobs
};
Chain walk_chain(int64 job);

}  // namespace jobq
