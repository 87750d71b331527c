// The walk through the claim index: the entries of a lane in the order in which its jobs are claimed.
//
// A scan reads the index a page at a time, all matching entries of it at once, some hundreds where a claim wants one:
// a fifth of all instructions of a claim and its completion. So whoever has an idea how far it will go says so, and the
// scan reads up to there first. Behind it, it goes on by itself: an idea may be wrong.
#pragma once

#include "lanes/claim_key_policy.h"
#include "table/table.h"

namespace jobq {

// How much of a lane a scan reads, or any entry of the lanes behind it. The index' key is (lane, priority, run_at,
// id).
// UpToPriority goes on to the end of a priority. RoundRobinKey and BehindRoundRobinKey are of the index of queues with
// round_robin, (lane, round-robin key, priority, run_at, id): the rest of one round-robin key, or any key behind it.
// Due reads the index of jobs that become claimable later, (run_at, id); Running reads that of rescue-indexed jobs,
// (id).
enum class Reach {
    Rest,
    UpToPriority,
    UpToMoment,
    WithinMoment,
    Behind,
    RoundRobinKey,
    BehindRoundRobinKey,
    Due,
    Running
};
constexpr int kReaches = 9;

struct ReadyScan {
    Relation index;
    Relation round_robin;
    Relation due;
    Relation running;
    IndexScanDesc scans[kReaches];  // nullptr: not used yet
    IndexScanDesc current;
    int64 lane;
    core::ClaimKey go_on_behind;   // this key, when what has been read is used up; kLastKey: that is the end
    core::ClaimKey then_expected;  // how far the caller is likely to go from there
    // The scans point into it.
    ScanKeyData keys[5];
    ScanKeyData row[3];
};

// Ends the scans; the index stays open.
void end_ready_scans(ReadyScan *ready);

// Goes to the first entry of a lane at or behind `from`. `expected`: how far the caller is likely to go, kLastKey:
// nobody knows. `snapshot` must live as long as the scan.
void seek_entry(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected);
// The same for a caller who wants the entries up to `to` only: the scan ends about there, some entries too late.
void seek_entry_range(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                      const core::ClaimKey &to);
// Goes to the first entry of a round-robin key in a lane at or behind `from`.
void seek_entry_of_round_robin_key(ReadyScan *ready, const Table &table, int64 lane, int64 key,
                                   const core::ClaimKey &from);
// Goes to the first entry of a due or running job at or after `from`; the scan ends after `to`. Keys are those of
// core::due_key and core::running_key.
void seek_due_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
// The next round-robin key of a lane behind *key that has entries, of whatever jobs; false when there is none.
bool next_round_robin_key_of(ReadyScan *ready, const Table &table, int64 lane, int64 *key);
// The next entry's key; false at the end.
bool next_entry(ReadyScan *ready, const Table &table, core::ClaimKey *key);

// The next lane behind *lane that has entries, of whatever jobs, and the key of the first; false when there is none.
bool next_lane_of(ReadyScan *ready, const Table &table, int64 *lane, core::ClaimKey *first);

// Passes over at most `count` of the next entries, which the scan has read already, most likely: *key is that of the
// last one. Returns how many there were, -1 when the scan stops where the caller thought that it would end.
int pass_entries(ReadyScan *ready, int count, core::ClaimKey *key);

}  // namespace jobq
