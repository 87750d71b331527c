// Scans of the claim index: the entries of a lane in the order in which its jobs are claimed.
//
// The server's index scan collects all matching entries of a page, often hundreds, even though a claim needs only one.
// Collecting these entries took a fifth of the CPU instructions that were executed to claim and complete a job.
// Therefore, a caller can pass the key at which it is likely to stop, and the scan first reads only up to this key. If
// the caller's guess is wrong, the scan continues.
#pragma once

#include "core/claim_key.h"
#include "row/jobs_catalog.h"
#include "table/table.h"

namespace jobq {

// The part of an index that one of the server's index scans covers. The first four values cover a part of one lane in
// the claim index, whose key is (lane, priority, run_at, id): the rest of the lane, or the entries up to the end of a
// priority (UpToPriority), up to the end of a run_at in the same priority (UpToMoment), or up to an id with the same
// run_at (WithinMoment). LaterLanes covers all lanes after a lane. RoundRobinKey and AfterRoundRobinKey use the index
// for queues with round_robin, whose key is (lane, round-robin key, priority, run_at, id), and cover the rest of one
// round-robin key or all later keys. Due covers the index of jobs that become claimable later, whose key is (run_at,
// id). Running covers jobs_running_idx, an index of running jobs whose key is (id).
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
    Relation indexes[kJobIndexes];  // opened when needed
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

// Positions the scan at the first entry at or after `from` in a lane. `expected` is the key up to which the caller is
// likely to read, or kLastKey if this key is unknown. The table's snapshot must live as long as the scan.
void seek_entry(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected);
// Positions the scan like seek_entry(), for a caller that needs only the entries up to `to`. The scan can still return
// some entries after `to`.
void seek_entry_range(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                      const core::ClaimKey &to);
// Positions the scan among the entries of one round-robin key of a lane, at the first entry at or after `from`.
void seek_entry_of_round_robin_key(ReadyScan *ready, const Table &table, int64 lane, int64 key,
                                   const core::ClaimKey &from);
// These functions position the scan at the first entry at or after `from` in the index of due jobs or of running jobs.
// The scan ends after `to`. The keys must come from core::due_key() or core::running_key().
void seek_due_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
// Advances *key to the next round-robin key that has entries in the lane, even if none of their jobs is claimable.
// Returns false if there is no such key.
bool next_round_robin_key_of(ReadyScan *ready, const Table &table, int64 lane, int64 *key);
// Sets *key to the key of the next entry. Returns false at the end.
bool next_entry(ReadyScan *ready, const Table &table, core::ClaimKey *key);

// Advances *lane to the next lane that has entries, even if none of their jobs is claimable, and sets *first to the key
// of the lane's first entry. Returns false if there is no such lane.
bool next_lane_of(ReadyScan *ready, const Table &table, int64 *lane, core::ClaimKey *first);

// Skips up to `count` entries, which the scan has probably read already, and sets *key to the key of the last skipped
// entry. Returns the number of skipped entries. Returns -1 and skips no entry if the current scan reads neither to the
// end of the lane nor to the end of a priority.
int pass_entries(ReadyScan *ready, int count, core::ClaimKey *key);

}  // namespace jobq
