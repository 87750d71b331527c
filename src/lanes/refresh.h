// Reads the claim index to find empty ranges (lanes/empty_ranges.h).
#pragma once

#include "compat/pg.h"
#include "core/key_space.h"
#include "lanes/empty_ranges_policy.h"
#include "row/jobs_table.h"

namespace jobq {

// A lane is read for empty ranges when a claim has passed this many entries of jobs that are gone, but at most once per
// pause.
constexpr int kWorthRefreshing = 8;
constexpr core::Micros kRefreshPause = core::kMillisecond;

// Minimum number of entries that a claim must pass in a range after a visible job, so that the range is worth keeping.
constexpr int kWorthKeeping = 4;
// Additional value of the range before the first job. It may contain whole pages of entries that the index has marked
// as dead, which a scan passes without counting them.
constexpr int kWorthUnseen = 64;
// Maximum number of jobs that a read passes. Later ranges do not matter, because the next claims find these jobs first.
constexpr int kMaxJobsSeen = 16;

// Reads a lane's part of the claim index from `begin` to `end` and publishes the empty ranges that it finds. Uses a new
// snapshot that does not see this transaction's own changes. Does nothing if a session started such a read less than
// `pause` ago. `jobs` needs a new snapshot afterwards.
void refresh_lane(JobsTable *jobs, int64 lane, const core::ClaimKey &end, core::Micros pause,
                  const core::ClaimKey &begin = core::kFirstKey);

// Reads the index of the due or running jobs (core::KeySpace::Due, Running) up to `end`, publishes the empty ranges
// that it finds, and returns all that are known; no ranges if they cannot be relied on. The caller takes its snapshot
// afterwards and reads the jobs outside the ranges.
core::EmptyRanges refreshed_ranges(core::KeySpace space, const core::ClaimKey &end);

// Looks for claimable jobs in empty ranges, and publishes those that it finds. This is a safety net, because whatever
// makes a job claimable publishes it. Each call reads a limited number of entries and continues where the last one
// ended. Returns the number of lanes with such jobs.
int64 repair_empty_ranges();

}  // namespace jobq
