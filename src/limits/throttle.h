// Finds and updates the throttled ranges of a lane (limits/throttled_ranges.h). Claims skip these ranges because limits
// prevent the jobs in them from running.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges_policy.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// Returns the throttled ranges of a lane, which contain no job that may run. If the limit of a concurrency key has room
// again, first removes the next jobs of that key from the ranges. If the limit has a rate, it removes at most `most`
// jobs, which is the number of jobs that the caller wants to claim. Uses the snapshot of `jobs`.
core::EmptyRanges throttled_ranges(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                                   int most, TimestampTz now);

// Number of jobs that a claim must have passed because the limits of their keys were full before it calls
// throttle_jobs(), so that later claims skip such jobs.
constexpr int kWorthThrottling = 32;
// Reads a lane in the same way as refresh_lane() and stores its throttled ranges. `jobs` needs a new snapshot
// afterward.
void throttle_jobs(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                   TimestampTz now);

}  // namespace jobq
