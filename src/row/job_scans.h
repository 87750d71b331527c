// Scans of jobq.jobs in the order of an index, directly or with SQL (row/jobs_table.h).
#pragma once

#include "row/jobs_table.h"

namespace jobq {

// Sets *lane to the next lane after *lane that has entries in the claim index, even if none of their jobs is claimable.
// Returns false if there is none.
bool next_lane(JobsTable *jobs, int64 *lane);

// An iteration over the given lanes, without the lanes that have no entries in the claim index. It alternately skips
// ahead in the given lanes and in the index, so its cost is proportional to the number of given lanes or to the number
// of lanes with entries, whichever is smaller.
struct LaneWalk {
    const int64 *lanes;  // in the order of their ids
    int count;
    int at;
};
// Sets *lane to the next of these lanes and *first to the key of its first entry, whether the entry's job is claimable
// or not. Returns false at the end.
bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first);

// Positions the scan at the first entry of a lane in the claim index at or after `from`. `expected` is the key up to
// which the caller is likely to read (row/ready_scan.h).
void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected = core::kLastKey);
// Does the same for a caller that only needs the entries up to `to`. The scan may still return some entries after `to`.
void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to);
// Does the same in the index for queues with round_robin, for the jobs of one round-robin key.
void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from);
// Sets *key to the next round-robin key of the lane after *key that has entries, even if none of their jobs is
// claimable. Returns false if there is none.
bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key);
// Position the scan at the first entry at or after `from`: seek_due() in the index of jobs that become claimable later,
// in the order of core::due_key(); seek_running() in the index of running jobs that the rescue scans, in the order of
// core::running_key(). The scan ends after `to`.
void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
// Sets *key to the key of the next entry. Returns false at the end of the lane or range. The entry may belong to a dead
// row version.
bool next_ready(JobsTable *jobs, core::ClaimKey *key);
// Stores the row of the current entry in table.row. Returns false if the snapshot sees no row for it.
bool fetch_ready(JobsTable *jobs);

}  // namespace jobq
