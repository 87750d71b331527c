// Beside the empty ranges (lanes/empty_ranges.h): the plain reads of the claim index behind them.
#pragma once

#include "compat/pg.h"
#include "core/key_space.h"
#include "lanes/empty_ranges_policy.h"
#include "row/jobs_table.h"

namespace jobq {

// So many entries of jobs that are gone, and the next claims shall be spared them: by a read so long after the last
// one.
constexpr int kWorthRefreshing = 8;
constexpr core::Micros kRefreshPause = core::kMillisecond;

// A range behind a job that is still to be seen is worth its place when a claim passes so many entries in it.
constexpr int kWorthKeeping = 4;
// Before the first job may lie whole pages of entries that the index has marked as dead: a scan passes these without
// notice. That range is worth so much more than was seen.
constexpr int kWorthUnseen = 64;
// Jobs that the next claims will see all the same: so many, and the rest is no affair of ours.
constexpr int kMaxJobsSeen = 16;

// Reads a lane's part of the claim index from `begin` up to `end`, under a fresh snapshot that does not see this
// transaction's own changes, and tells the other sessions where it is empty; not when somebody began that less than
// `pause` ago. `jobs` needs a new snapshot afterwards.
void refresh_lane(JobsTable *jobs, int64 lane, const core::ClaimKey &end, core::Micros pause,
                  const core::ClaimKey &begin = core::kFirstKey);

// Reads the index of the due or running jobs (core::KeySpace::Due, Running) up to `end`, publishes the empty ranges
// that it finds, and returns all that are known; no ranges if they cannot be relied on. The caller takes its snapshot
// afterwards and reads the jobs outside the ranges.
core::EmptyRanges refreshed_ranges(core::KeySpace space, const core::ClaimKey &end);

// Looks for claimable jobs where the empty ranges say there are none: a safety net, since whatever makes one claimable
// publishes it. One call reads a bounded piece; the next goes on behind it. Returns in how many lanes it found and
// published some.
int64 repair_empty_ranges();

}  // namespace jobq
