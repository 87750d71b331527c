// Removes jobs from the throttled ranges of a lane (limits/throttled_ranges.h) when their limits have room again.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges_policy.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// Returns the throttled ranges of a lane. No job in these ranges can run. If the limit of a concurrency key has room
// again, first removes the next jobs of that key from the ranges. If the limit has a rate, removes at most `most` jobs;
// `most` is the number of jobs that the caller wants to claim. Uses the snapshot of `jobs`.
core::EmptyRanges throttled_ranges(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                                   int most, TimestampTz now);

}  // namespace jobq
