// Finds and updates the throttled ranges of a lane (limits/throttled_ranges.h), which claims skip because the limits of
// their keys prevent the jobs in them from running.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges_policy.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// Returns the throttled ranges of a lane, which contain no job that may run. First takes the next jobs of keys that
// have room again out of the ranges; for a key with a rate, at most `most` jobs, which is how many the caller wants.
// Uses the snapshot of `jobs`.
core::EmptyRanges throttled_ranges(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                                   int most, TimestampTz now);

// A claim that has passed this many jobs of keys without room calls throttle_jobs(), so that later claims skip them.
constexpr int kWorthThrottling = 32;
// Reads a lane, as refresh_lane does, and stores its throttled ranges. `jobs` needs a new snapshot afterwards.
void throttle_jobs(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                   TimestampTz now);

}  // namespace jobq
