// Empty ranges record in shared memory which parts of the lanes contain no claimable jobs
// (lanes/empty_ranges_policy.h), so that claims skip the dead index entries in these parts. Otherwise, every claim
// would read all of these entries while an old transaction stays open, because neither vacuum nor the index can remove
// the entries during this time.
//
// Empty ranges are hints with one guarantee: no committed claimable job lies in an empty range, except during the
// moment between the commit that makes the job claimable and the publication of the job's key. Two rules ensure this.
//  - A transaction that makes a job claimable publishes the claim key of the job after its commit has become visible
//    (commit/at_commit.h). Publishing a key removes the key from the ranges.
//  - A session finds ranges by reading without locks under a new snapshot that does not see the session's own
//    uncommitted changes, so a row that is locked or has uncommitted changes still counts as a job. The session calls
//    begin_refresh() before it takes the snapshot. Keys that are published after this call are removed from the ranges
//    that the session adds.
// If plain SQL makes a job claimable, a trigger publishes the job's key. Therefore, empty ranges are valid only in one
// epoch, which is the time between two changes to the triggers of jobq.jobs. There are no empty ranges while a trigger
// that publishes keys is disabled. See trigger_epoch() in row/jobs_catalog.h.
//
// There are no empty ranges if the library is not preloaded or the launcher is not running. In this case, claims return
// the same jobs, but more slowly.
#pragma once

#include "compat/pg.h"
#include "core/key_space.h"
#include "lanes/empty_ranges_policy.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// Identifies a set of empty ranges in this session's database by a lane number and a key space. A lane number alone
// stands for the key space of the claimable jobs of that lane.
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

// Returns whether empty ranges are recorded and used in this epoch. They are not if the library is not preloaded or no
// background worker serves the database.
bool keeps_empty_ranges(uint64 epoch);

// Number of index entries without a claimable job after which a scan of a lane ends early if it has met expired jobs. A
// million jobs can expire at once, and the index keeps their entries until the duty "expire" has canceled them. The
// scan records the range that it has read, so that the next claim continues after this range. Reading this many entries
// takes about 20 ms.
constexpr int kMaxPassedExpired = 20000;

// Returns the known empty ranges of a lane in this session's database.
core::EmptyRanges read_empty_ranges(uint64 epoch, RangesOf lane);

// Returns the first key of the lane that is in no empty range, or kLastKey if there is no such key. This is cheaper
// than calling read_empty_ranges().
core::ClaimKey first_possible_key(uint64 epoch, RangesOf lane);

// Returns the key at which the next claims from the lane are likely to stop reading, or kLastKey if this key is
// unknown. The key is an estimate, which a claim has stored with expect_end() and which keeps claims from reading more
// of the index than they need.
core::ClaimKey expected_end(int64 lane);
void expect_end(int64 lane, const core::ClaimKey &key);

// Starts a scan for empty ranges. Must be called before taking the snapshot of the scan and before read_empty_ranges().
// Returns a ticket, or 0 if another scan of the lane is running or started less than `pause` ago.
uint64 begin_refresh(uint64 epoch, RangesOf lane, core::Micros pause);
// Adds the empty ranges that the scan found. `ticket` is the number that begin_refresh() returned.
void finish_refresh(RangesOf lane, uint64 ticket, const core::EmptyRanges &found);

// Returns whether a scan for empty ranges of the lane is running.
bool is_being_refreshed(RangesOf lane);

// Removes the keys from `first` to `last` from the empty ranges. Called after jobs with such keys have become claimable
// and visible. Raises no error.
void publish_keys(RangesOf lane, const core::ClaimKey &first, const core::ClaimKey &last);

// Removes all empty ranges of this session's database. Raises no error.
void forget_empty_ranges();

// The information about one lane in shared memory.
struct TrackedLane {
    RangesOf lane;
    core::ClaimKey first;  // the first key that is in no empty range
    int ranges;
    TimestampTz refreshed_at;
};
// Writes at most `room` tracked lanes of this session's database to `held` and returns their number. A lane is tracked
// if it has an entry in shared memory.
int tracked_lanes(uint64 epoch, TrackedLane *held, int room);
// Returns the maximum total number of tracked lanes across all databases, or 0 if the library is not preloaded.
int max_tracked_lanes();

// main/jobq.cpp calls these functions to set up the empty ranges in shared memory and to report their usage.
Size empty_ranges_size();
void make_empty_ranges(void *memory, bool fresh);
SharedUsage empty_ranges_usage();

}  // namespace jobq
