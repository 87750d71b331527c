// Finds the jobs that a blocked job waits for: its dependencies, jobs that it awaits, and the jobs before it in its
// group, then the jobs that these jobs wait for, and so on. Used by admin/explain.cpp. Call it inside with_spi(). It
// changes nothing.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Maximum number of jobs that one call to walk_chain() visits, so that a long chain does not keep the caller waiting.
constexpr int kVisitedJobs = 1000;

struct Chain {
    int64 *roots;  // jobs of the chain that wait for no other job, nearest first; palloc'd
    int root_count;
    bool deep;        // the job does not wait directly for one of the roots
    int64 unvisited;  // the first job that was not visited because of kVisitedJobs; 0: all were visited
    bool any;         // the job waits for other jobs
};
Chain walk_chain(int64 job);

}  // namespace jobq
