// Finds the throttled ranges of a lane (limits/throttled_ranges.h).
#pragma once

#include "compat/pg.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// Minimum number of jobs that a claim must have passed over, because the limits of their keys were full, before the
// claim calls throttle_jobs(), which makes later claims skip such jobs.
constexpr int kWorthThrottling = 32;
// Reads a lane in the same way as refresh_lane() and stores its throttled ranges. Afterward, the caller must take a new
// snapshot for `jobs`.
void throttle_jobs(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                   TimestampTz now);

}  // namespace jobq
