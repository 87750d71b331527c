// Beside limits/throttled_ranges.h: where claims need not look, since the limits of their keys keep the
// jobs there from running.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges_policy.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// The ranges of a lane without a job that may run, besides its empty ranges. Takes out of them the next jobs of keys
// that have room again; of a key with a rate no more than `most`, which the caller would take. By the snapshot of
// `jobs`.
core::EmptyRanges throttled_ranges(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                                   int most, TimestampTz now);

// A claim that had to pass so many jobs of keys without room makes the next ones know.
constexpr int kWorthThrottling = 32;
// Reads a lane as refresh_lane does. `jobs` needs a new snapshot afterwards.
void throttle_jobs(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                   TimestampTz now);

}  // namespace jobq
