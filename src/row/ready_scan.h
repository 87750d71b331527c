// Scans of the claim index: the entries of a lane in the order in which its jobs are claimed.
//
// A scan reads the index page by page and collects all matching entries of a page, some hundreds where a claim wants
// one; this took a fifth of all instructions of a claim and its completion. A caller that can guess how far it will go
// therefore says so, and the scan first reads only up to there. If the guess is wrong, the scan reads on.
#pragma once

#include "core/claim_key.h"
#include "table/table.h"

namespace jobq {

// How much of a lane a scan reads, or that it reads any entry of the lanes after it (LaterLanes). The key of the index
// is (lane, priority, run_at, id). UpToPriority continues to the end of a priority. RoundRobinKey and
// AfterRoundRobinKey scan the index for queues with round_robin, (lane, round-robin key, priority, run_at, id): the
// rest of one round-robin key, or any key after it. Due scans the index of jobs that become claimable later, (run_at,
// id); Running scans the index of rescue-indexed jobs, (id).
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
    core::ClaimKey continue_after;  // key after which to continue when the current scan is used up; kLastKey: end
    core::ClaimKey then_expected;   // how far the caller is likely to go from there
    // The scans point into these keys.
    ScanKeyData keys[5];
    ScanKeyData row[3];
};

// Ends the scans; the indexes stay open.
void end_ready_scans(ReadyScan *ready);
void close_ready_indexes(ReadyScan *ready);

// Positions the scan at the first entry of a lane at or after `from`. `expected` is how far the caller is likely to go,
// or kLastKey if this is unknown. The table's snapshot must live as long as the scan.
void seek_entry(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected);
// Does the same for a caller that only wants the entries up to `to`. The scan may return some entries after `to`.
void seek_entry_range(ReadyScan *ready, const Table &table, int64 lane, const core::ClaimKey &from,
                      const core::ClaimKey &to);
// Positions the scan at the first entry of a round-robin key in a lane at or after `from`.
void seek_entry_of_round_robin_key(ReadyScan *ready, const Table &table, int64 lane, int64 key,
                                   const core::ClaimKey &from);
// Position the scan at the first entry of a due or running job at or after `from`; the scan ends after `to`. The keys
// are made by core::due_key() and core::running_key().
void seek_due_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running_entry(ReadyScan *ready, const Table &table, const core::ClaimKey &from, const core::ClaimKey &to);
// Sets *key to the next round-robin key of a lane after *key that has entries, claimable or not; returns false if there
// is none.
bool next_round_robin_key_of(ReadyScan *ready, const Table &table, int64 lane, int64 *key);
// Sets *key to the key of the next entry; returns false at the end.
bool next_entry(ReadyScan *ready, const Table &table, core::ClaimKey *key);

// Sets *lane to the next lane after *lane that has entries, claimable or not, and *first to the key of its first entry;
// returns false if there is none.
bool next_lane_of(ReadyScan *ready, const Table &table, int64 *lane, core::ClaimKey *first);

// Skips at most `count` of the next entries, which the scan has most likely read already, and sets *key to the key of
// the last one. Returns the number of entries skipped, or -1 if the scan ends where the caller expected to stop.
int pass_entries(ReadyScan *ready, int count, core::ClaimKey *key);

}  // namespace jobq
