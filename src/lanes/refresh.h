// Reads the claim index to find empty ranges (lanes/empty_ranges.h).
#pragma once

#include "compat/pg.h"
#include "core/key_space.h"
#include "lanes/empty_ranges_policy.h"
#include "row/jobs_table.h"

namespace jobq {

// Number of dead index entries that a claim must pass before the lane is scanned for empty ranges, and the minimum time
// between two such scans.
constexpr int kWorthRefreshing = 8;
constexpr core::Micros kRefreshPause = core::kMillisecond;

// Minimum number of dead index entries in a range that is stored. Applies to ranges after the first visible job.
constexpr int kWorthKeeping = 4;
// Added to the value of the range before the first job, because this range may contain whole pages of entries that the
// index has marked as dead, and a scan does not count such entries.
constexpr int kWorthUnseen = 64;
// Maximum number of jobs that a scan passes before it stops. Ranges after these jobs do not matter, because the next
// claims find the jobs first.
constexpr int kMaxJobsSeen = 16;

// Scans the claim index for a lane from `begin` to `end` and publishes the empty ranges that it finds. Uses a new
// snapshot that does not see the changes of this transaction. Does nothing if a session started such a scan less than
// `pause` ago. `jobs` needs a new snapshot afterward.
void refresh_lane(JobsTable *jobs, int64 lane, const core::ClaimKey &end, core::Micros pause,
                  const core::ClaimKey &begin = core::kFirstKey);

// Scans the index of the due jobs (core::KeySpace::Due) or running jobs (core::KeySpace::Running) up to `end` and
// publishes the empty ranges that it finds. Returns all known empty ranges, or no ranges if they cannot be relied on.
// The caller then takes its snapshot and reads the jobs outside the ranges.
core::EmptyRanges refreshed_ranges(core::KeySpace space, const core::ClaimKey &end);

// Searches the empty ranges for claimable jobs and publishes the keys of these jobs. This is only a safety net, because
// a transaction that makes a job claimable publishes its key. Each call reads a limited number of entries and continues
// where the last call ended. Returns the number of lanes in which it found such jobs.
int64 repair_empty_ranges();

}  // namespace jobq
