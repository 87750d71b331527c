// Empty ranges record in shared memory which parts of the lanes are empty (lanes/empty_ranges_policy.h), so that claims
// need not pass dead index entries. While a transaction that is older than these entries stays open, neither vacuum nor
// the index may remove them, and every claim would pass all of them.
//
// Empty ranges are hints with one guarantee: no committed claimable job lies in an empty range, except between the
// commit of its transaction and that session's next instruction. Two rules ensure this.
//  - Whatever makes a job claimable publishes the key of the job after its transaction has become visible
//    (commit/at_commit.h). This removes the key from the ranges.
//  - A range comes from a plain read under a new snapshot that does not see the reader's own changes, so a row that is
//    locked or has uncommitted changes still counts as a job. The reader calls begin_refresh() before it takes the
//    snapshot, and keys that are published from then on are removed from the ranges it adds.
// For jobs made claimable by plain SQL, triggers publish. So empty ranges belong to an epoch, which is the time between
// two changes of the table's triggers, and are not valid in any other. While a publishing trigger is disabled, there
// are no empty ranges. See trigger_epoch() in row/jobs_catalog.h.
//
// Without preload or a running launcher there are no empty ranges. Claims then return the same jobs, but more slowly.
#pragma once

#include "compat/pg.h"
#include "core/key_space.h"
#include "lanes/empty_ranges_policy.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// Identifies a set of empty ranges in this session's database. For claimable jobs, it is the number of their lane. The
// key space is part of the identity, so that a lane number cannot be confused with another key space.
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

// Returns the empty ranges of a lane in this session's database; no ranges if none are known.
core::EmptyRanges read_empty_ranges(uint64 epoch, RangesOf lane);

// Returns the first key of the lane at which a job can be, or kLastKey if there is none. Costs less than
// read_empty_ranges().
core::ClaimKey first_possible_key(uint64 epoch, RangesOf lane);

// Returns the key where the next claims of the lane are likely to end, as the last claim that read so far estimated it,
// or kLastKey if unknown. It is a guess that keeps claims from reading more of the index than they need.
core::ClaimKey expected_end(int64 lane);
void expect_end(int64 lane, const core::ClaimKey &key);

// Starts a read that may find empty ranges. Must be called before the snapshot of the read is taken and before
// read_empty_ranges(). Returns a ticket, or 0 if another read is running or started less than `pause` ago.
uint64 begin_refresh(uint64 epoch, RangesOf lane, core::Micros pause);
// Adds the empty ranges that the read found. `ticket` is the result of begin_refresh().
void finish_refresh(RangesOf lane, uint64 ticket, const core::EmptyRanges &found);

// Returns whether such a read is running.
bool is_being_refreshed(RangesOf lane);

// Removes the keys from `first` to `last` from the empty ranges, because jobs there have become claimable and visible.
// Raises no error.
void publish_keys(RangesOf lane, const core::ClaimKey &first, const core::ClaimKey &last);

// Removes all empty ranges of this session's database. Raises no error.
void forget_empty_ranges();

// What shared memory holds for one lane.
struct TrackedLane {
    RangesOf lane;
    core::ClaimKey first;  // the first key at which a job can be
    int ranges;
    TimestampTz refreshed_at;
};
// Lists at most `room` tracked lanes of this session's database. Returns their number.
int tracked_lanes(uint64 epoch, TrackedLane *held, int room);
// Returns the maximum number of tracked lanes in all databases; 0 without preload.
int max_tracked_lanes();

// Returns where the repair continues, and resets the place, so that a worker that starts a repair before
// leave_repair_place() begins at the start. Different workers may continue a repair in turn.
RepairPlace take_repair_place();
void leave_repair_place(const RepairPlace &place);

// For main/jobq.cpp: the shared memory of this part.
Size empty_ranges_size();
void make_empty_ranges(void *memory, bool fresh);
SharedUsage empty_ranges_usage();

}  // namespace jobq
