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

// Minimum number of dead index entries that a range must contain to be stored. This minimum does not apply to the range
// before the first visible job.
constexpr int kWorthKeeping = 4;
// Number that is added to the count of dead index entries in the range before the first job, because the count does not
// include entries that are marked as dead. The range may contain whole pages of such entries.
constexpr int kWorthUnseen = 64;
// Maximum number of jobs that a scan passes before it stops. Empty ranges after these jobs do not matter, because the
// next claims find these jobs first.
constexpr int kMaxJobsSeen = 16;

// Scans the claim index for a lane from `begin` to `end` and publishes the empty ranges that it finds. Uses a new
// snapshot that does not see the changes of the current transaction. Afterward, the caller must take a new snapshot for
// `jobs`. Does nothing if such a scan of the lane, by any session, began less than `pause` ago.
void refresh_lane(JobsTable *jobs, int64 lane, const core::ClaimKey &end, core::Micros pause,
                  const core::ClaimKey &begin = core::kFirstKey);

// Scans the index of the due jobs (core::KeySpace::Due) or running jobs (core::KeySpace::Running) up to `end` and
// publishes the empty ranges that it finds. Returns all known empty ranges, or no ranges if the known ranges cannot be
// relied on. The caller then takes its snapshot and reads the jobs outside the ranges.
core::EmptyRanges refreshed_ranges(core::KeySpace space, const core::ClaimKey &end);

// Searches the empty ranges for claimable jobs and publishes the keys of these jobs. The search is only a safety net,
// because a transaction that makes a job claimable publishes the job's key. Each call reads a limited number of entries
// and continues where the last call ended. Returns the number of lanes in which it found claimable jobs.
int64 repair_empty_ranges();

}  // namespace jobq
