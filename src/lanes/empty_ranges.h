// Empty ranges: what the sessions of a server know together of the emptiness of lanes (lanes/empty_ranges_policy.h), so
// that a claim does not walk over the index entries of jobs that are gone. While a transaction that is older than they
// are stays open, neither vacuum nor the index may remove these, and every claim would pass all of them.
//
// Empty ranges are hints with one guarantee: no committed claimable job lies in a range that is called empty, but for
// the moment between its transaction's commit and that session's next instruction. It rests on two rules.
//  - Whatever makes a job claimable publishes the job's key after its transaction has become visible
//    (commit/at_commit.h), which takes the key out of the ranges.
//  - A range comes from a plain read under a fresh snapshot that does not see the reader's own changes: a row that
//    anybody holds, or has changed without having committed, still counts as a job. The reader says so before it
//    takes the snapshot, and what is published from then on limits what it may add.
// By hand, triggers publish. So empty ranges are of an epoch, the time between two changes of the table's triggers, and
// hold in no other; while a trigger that publishes is switched off there are none. See trigger_epoch() in
// row/jobs_table.h.
//
// Without preload or without a running launcher there are no empty ranges: the same answers, only slower.
#pragma once

#include "compat/pg.h"
#include "core/key_space.h"
#include "lanes/empty_ranges_policy.h"
#include "shmem/database_state.h"

namespace jobq {

// Identifies a set of empty ranges of this session's database. A lane's number stands for its claimable jobs. The key
// space is part of the identity, so that no lane number can be mistaken for another key space.
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

// What is known of a lane of this session's database; no ranges when nothing is.
core::EmptyRanges read_empty_ranges(uint64 epoch, RangesOf lane);

// Where the first job of the lane can be; kLastKey: there is none. Costs less than read_empty_ranges.
core::ClaimKey first_possible_key(uint64 epoch, RangesOf lane);

// Where the next claims of the lane are likely to end, as the last one thought that read so far; kLastKey: nobody
// knows. A guess, good for reading no more of the index than is needed.
core::ClaimKey expected_end(int64 lane);
void expect_end(int64 lane, const core::ClaimKey &key);

// A read that may find empty ranges begins: to be called before its snapshot is taken, and before read_empty_ranges. 0:
// not now, since another one is going on or began less than `pause` ago.
uint64 begin_refresh(uint64 epoch, RangesOf lane, core::Micros pause);
// What the read found empty; `ticket` is what begin_refresh returned.
void finish_refresh(RangesOf lane, uint64 ticket, const core::EmptyRanges &found);

// Whether such a read is going on.
bool is_being_refreshed(RangesOf lane);

// Jobs of a lane, their keys between `first` and `last`, have become claimable and visible. No error is raised.
void publish_keys(RangesOf lane, const core::ClaimKey &first, const core::ClaimKey &last);

// Forgets every mark of this session's database. No error is raised.
void forget_empty_ranges();

// What is held of one lane.
struct TrackedLane {
    RangesOf lane;
    core::ClaimKey first;  // where its first job can be
    int ranges;
    TimestampTz refreshed_at;
};
// The lanes of this session's database of which something is known, at most `room` of them; returns how many.
int tracked_lanes(uint64 epoch, TrackedLane *held, int room);
// How many there can be in all databases; 0 without preload.
int max_tracked_lanes();

// For the repair, whoever does it: workers may take turns after every round. Until its place is left, another one that
// comes begins at the beginning.
RepairPlace take_repair_place();
void leave_repair_place(const RepairPlace &place);

// For main/jobq.cpp: its part of the shared memory.
Size empty_ranges_size();
void make_empty_ranges(void *memory, bool fresh);

}  // namespace jobq
