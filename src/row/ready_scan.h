// Scans of the claim index: the entries of a lane in the order in which its jobs are claimed.
//
// The server's index scan collects all matching entries of a page, often hundreds although a claim needs only one. This
// took a fifth of all instructions of a claim and its completion. Therefore a caller that can guess which key it will
// stop at passes this key, and the scan first reads only up to it. If the guess is wrong, the scan continues.
#pragma once

#include "core/claim_key.h"
#include "table/table.h"

namespace jobq {

// The part of an index that one of the server's index scans covers: a part of one lane, or all lanes after it
// (LaterLanes). The key of the index is (lane, priority, run_at, id). UpToPriority continues to the end of a priority.
// RoundRobinKey and AfterRoundRobinKey scan the index for queues with round_robin, (lane, round-robin key, priority,
// run_at, id): the rest of one round-robin key, or any key after it. Due scans the index of jobs that become claimable
// later, (run_at, id). Running scans the index of running jobs that the rescue checks, (id).
enum class Reach {
    Rest,
    UpToPriority,
    UpToMoment,
    WithinMoment,
    LaterLanes,
    RoundRobinKey,
    AfterRoundRobinKey,
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
    core::ClaimKey continue_after;  // key after which to continue when the current scan ends; kLastKey: do not continue
    core::ClaimKey then_expected;   // key up to which the caller is likely to read after that
    // The scan descriptors point into these arrays.
    ScanKeyData keys[5];
    ScanKeyData row[3];
};

// Ends the scans but keeps the indexes open.
void end_ready_scans(ReadyScan *ready);
void close_ready_indexes(ReadyScan *ready);

// Positions the scan at the first entry of a lane at or after `from`. `expected` is the key up to which the caller is
// likely to read, or kLastKey if this is unknown. The table's snapshot must live as long as the scan.
void seek_entry(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected);
// Does the same for a caller that only needs the entries up to `to`. The scan may still return some entries after `to`.
void seek_entry_range(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                      const core::ClaimKey &to);
// Positions the scan at the first entry of a round-robin key in a lane at or after `from`.
void seek_entry_of_round_robin_key(ReadyScan *ready, const Table &table, int64 lane, int64 key,
                                   const core::ClaimKey &from);
// Position the scan at the first entry at or after `from` in the index of due jobs or of running jobs. The scan ends
// after `to`. The keys must come from core::due_key() or core::running_key().
void seek_due_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
// Sets *key to the next round-robin key of a lane after *key that has entries, even if none of their jobs is claimable.
// Returns false if there is none.
bool next_round_robin_key_of(ReadyScan *ready, const Table &table, int64 lane, int64 *key);
// Sets *key to the key of the next entry. Returns false at the end.
bool next_entry(ReadyScan *ready, const Table &table, core::ClaimKey *key);

// Sets *lane to the next lane after *lane that has entries, even if none of their jobs is claimable, and *first to the
// key of its first entry. Returns false if there is none.
bool next_lane_of(ReadyScan *ready, const Table &table, int64 *lane, core::ClaimKey *first);

// Skips at most `count` of the next entries, which the scan has most likely read already, and sets *key to the key of
// the last skipped entry. Returns the number of skipped entries, or -1 if the scan ends at the key at which the caller
// expected to stop.
int pass_entries(ReadyScan *ready, int count, core::ClaimKey *key);

}  // namespace jobq
