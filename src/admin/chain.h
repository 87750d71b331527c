// Finds the jobs that a blocked job waits for: its dependencies, the jobs that it awaits, and the jobs before it in its
// group. Then finds the jobs that those jobs wait for, and so on. Used by admin/explain.cpp. walk_chain() must be
// called inside with_spi() and changes nothing.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Maximum number of jobs that one call to walk_chain() visits, so that a long chain does not keep the caller waiting.
constexpr int kVisitedJobs = 1000;

struct Chain {
    int64 *roots;  // jobs of the chain that wait for no other job, nearest first; palloc'd
    int root_count;
    bool deep;        // the job does not wait directly for one of the roots
    int64 unvisited;  // the first job beyond the limit kVisitedJobs; 0: all jobs were visited
    bool any;         // the job waits for other jobs
};
Chain walk_chain(int64 job);

}  // namespace jobq
