// Scans of jobq.jobs in the order of an index, directly or with SQL (row/jobs_table.h).
#pragma once

#include "row/jobs_table.h"

namespace jobq {

// Sets *lane to the next lane after *lane that has entries in the claim index, claimable or not. Returns false if there
// is none.
bool next_lane(JobsTable *jobs, int64 *lane);

// Steps through the given lanes that have entries in the claim index. The cost is proportional to the number of given
// lanes or of lanes with entries, whichever is smaller, because each list is skipped up to the next element of the
// other.
struct LaneWalk {
    const int64 *lanes;  // in the order of their ids
    int count;
    int at;
};
// Returns the next such lane and the key of its first entry, claimable or not. Returns false at the end.
bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first);

// Positions the scan at the first entry of a lane in the claim index at or after `from`. `expected` is how far the
// caller is likely to go (row/ready_scan.h).
void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected = core::kLastKey);
// Does the same for the entries up to `to`. The scan may return some entries after `to`.
void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to);
// Does the same in the index of queues with round_robin, for the jobs of one round-robin key.
void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from);
// Sets *key to the next round-robin key of the lane after *key that has entries, claimable or not. Returns false if
// there is none.
bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key);
// Position the scan at the first entry at or after `from` of a job that becomes claimable later, or of a rescue-indexed
// job, in the order of core::due_key or core::running_key. The scan ends after `to`.
void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
// Sets *key to the key of the next entry. Returns false at the end of the lane or range. The entry may belong to a row
// version that no snapshot sees any more.
bool next_ready(JobsTable *jobs, core::ClaimKey *key);
// Stores the job of this entry in table.row. Returns false if the snapshot does not see one.
bool fetch_ready(JobsTable *jobs);

}  // namespace jobq
