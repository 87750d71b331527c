// Empty ranges record in shared memory which parts of the lanes contain no claimable jobs
// (lanes/empty_ranges_policy.h), so that claims skip the dead index entries in them. Otherwise, every claim would read
// all of these entries while an older transaction stays open, because neither vacuum nor the index may remove them in
// this time.
//
// Empty ranges are hints with one guarantee: no committed claimable job lies in an empty range, except for the moment
// between the commit of its transaction and the publication of its key. Two rules ensure this.
//  - A transaction that makes a job claimable publishes the claim key of the job after its commit has become visible
//    (commit/at_commit.h). This removes the key from the ranges.
//  - A session finds ranges by reading without locks under a new snapshot that does not see its own changes, so a row
//    that is locked or has uncommitted changes still counts as a job. The session calls begin_refresh() before it takes
//    the snapshot. Keys that are published after this call are removed from the ranges that it adds.
// If plain SQL makes a job claimable, a trigger publishes its key. So empty ranges are valid only in one epoch, which
// is the time between two changes to the triggers of jobq.jobs. There are no empty ranges while a trigger that
// publishes keys is disabled. See trigger_epoch() in row/jobs_catalog.h.
//
// There are no empty ranges if the library is not preloaded or the launcher does not run. In this case, claims return
// the same jobs, but more slowly.
#pragma once

#include "compat/pg.h"
#include "core/key_space.h"
#include "lanes/empty_ranges_policy.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// Identifies a set of empty ranges in this session's database by the number of a lane and a key space. A number alone
// means the claimable jobs of that lane.
struct RangesOf {
    core::KeySpace space;
    int64 lane;  // 0 in the key spaces of the whole database
    constexpr RangesOf(int64 number) : space(core::KeySpace::Claimable), lane(number) {}
    constexpr RangesOf(core::KeySpace of_what, int64 number = 0) : space(of_what), lane(number) {}
};
constexpr bool operator==(const RangesOf &a, const RangesOf &b) { return a.space == b.space && a.lane == b.lane; }
constexpr bool operator<(const RangesOf &a, const RangesOf &b) {
    return a.space != b.space ? a.space < b.space : a.lane < b.lane;
}

// Returns the known empty ranges of a lane in this session's database.
core::EmptyRanges read_empty_ranges(uint64 epoch, RangesOf lane);

// Returns the first key of the lane that is in no empty range, or kLastKey if there is none. This is cheaper than
// read_empty_ranges().
core::ClaimKey first_possible_key(uint64 epoch, RangesOf lane);

// Returns the key at which the next claims from the lane are likely to stop reading, or kLastKey if unknown. It is an
// estimate that a claim stored with expect_end(), and it keeps claims from reading more of the index than they need.
core::ClaimKey expected_end(int64 lane);
void expect_end(int64 lane, const core::ClaimKey &key);

// Starts a scan for empty ranges. Call it before taking the snapshot of the scan and before read_empty_ranges().
// Returns a ticket, or 0 if another scan of the lane is running or started less than `pause` ago.
uint64 begin_refresh(uint64 epoch, RangesOf lane, core::Micros pause);
// Adds the empty ranges that the scan found. `ticket` is the result of begin_refresh().
void finish_refresh(RangesOf lane, uint64 ticket, const core::EmptyRanges &found);

// Returns whether a scan for empty ranges of the lane is running.
bool is_being_refreshed(RangesOf lane);

// Removes the keys from `first` to `last` from the empty ranges, because jobs with such keys have become claimable and
// visible. Raises no error.
void publish_keys(RangesOf lane, const core::ClaimKey &first, const core::ClaimKey &last);

// Removes all empty ranges of this session's database. Raises no error.
void forget_empty_ranges();

// What shared memory contains about one lane.
struct TrackedLane {
    RangesOf lane;
    core::ClaimKey first;  // the first key that is in no empty range
    int ranges;
    TimestampTz refreshed_at;
};
// Writes at most `room` tracked lanes of this session's database to `held` and returns their number. A lane is tracked
// if it has an entry in shared memory.
int tracked_lanes(uint64 epoch, TrackedLane *held, int room);
// Returns the maximum number of tracked lanes in all databases; 0 without preload.
int max_tracked_lanes();

// Returns the position at which repair_empty_ranges() continues, and resets it, so that another background worker that
// starts a repair before leave_repair_place() is called begins with the first lane. Background workers may take turns
// in one repair.
RepairPlace take_repair_place();
void leave_repair_place(const RepairPlace &place);

// main/jobq.cpp calls these functions for this part of the shared memory.
Size empty_ranges_size();
void make_empty_ranges(void *memory, bool fresh);
SharedUsage empty_ranges_usage();

}  // namespace jobq
