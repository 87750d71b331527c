// Scans jobq.jobs in the order of an index, either directly or with SQL (row/jobs_table.h).
#pragma once

#include "row/jobs_table.h"

namespace jobq {

// Advances *lane to the next lane that has entries in the claim index, even if none of their jobs is claimable. Returns
// false if there is no such lane.
bool next_lane(JobsTable *jobs, int64 *lane);

// An iteration over the given lanes that have entries in the claim index. It alternately skips ahead in the given lanes
// and in the index, so its cost is proportional to the number of given lanes or the number of lanes with entries,
// whichever is smaller.
struct LaneWalk {
    const int64 *lanes;  // in the order of their ids
    int count;
    int at;
};
// Sets *lane to the next lane of the iteration and *first to the key of the lane's first entry, even if the job of the
// entry is not claimable. Returns false at the end of the iteration.
bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first);

// Positions the scan at the first entry at or after `from` in a lane of the claim index. `expected` is the key up to
// which the caller is likely to read (row/ready_scan.h).
void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected = core::kLastKey);
// Positions the scan like seek_ready(), for a caller that needs only the entries up to `to`. The scan can still return
// some entries after `to`.
void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to);
// Positions the scan among the entries of one round-robin key of a lane, at the first entry at or after `from`. Uses
// the index for queues with round_robin.
void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from);
// Advances *key to the next round-robin key that has entries in the lane, even if none of their jobs is claimable.
// Returns false if there is no such key.
bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key);
// These functions position the scan at the first entry at or after `from`. seek_due() uses the index of jobs that
// become claimable later, in the order of core::due_key(). seek_running() uses jobs_running_idx, an index of running
// jobs, in the order of core::running_key(). The scan ends after `to`.
void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
// Sets *key to the key of the next entry. Returns false at the end of the lane or range. The entry might belong to a
// dead row version.
bool next_ready(JobsTable *jobs, core::ClaimKey *key);
// Stores the row of the current entry in table.row. Returns false if the snapshot sees no row for it.
bool fetch_ready(JobsTable *jobs);
// Does the same as fetch_ready(), but also returns false if the job has expired. So a job that has expired, but that
// the duty "expire" has not canceled yet, counts as an entry without a job.
bool fetch_claimable(JobsTable *jobs);
// Returns whether the job in this row must not start because its expires_at has passed.
bool has_expired(TupleTableSlot *row);
// SQL condition: the job j has not expired at the given time.
#define NOT_EXPIRED(now) "(j.expires_at IS NULL OR j.expires_at > " now ")"

}  // namespace jobq
