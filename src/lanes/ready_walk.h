// Iterates over the claimable jobs of a lane and skips ranges that are known to be empty (lanes/empty_ranges.h) or to
// contain only jobs that cannot run now because of limits (limits/throttled_ranges.h). Claims do not use this file,
// because each claimed job affects how far a claim reads.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges.h"
#include "lanes/empty_ranges_policy.h"
#include "log/transaction_log.h"
#include "row/job_scans.h"

namespace jobq {

// Returns whether this transaction may use the empty ranges of a lane. The empty ranges take into account only jobs
// that have been committed and published.
inline bool may_skip_empty_ranges(int64 lane) { return !IsolationUsesXactSnapshot() && !has_unpublished_jobs(lane); }

enum class Step { Next, NextPriority, Stop };

// Calls visit(key) for the entries from `from` to `to` until visit() returns Stop. seek(key) moves to the first entry
// at or after a key. skip(key) returns `key` if it must be visited; otherwise, the next key that must be visited, or
// kLastKey if there is no such key.
template <typename Seek, typename Skip, typename Visit>
void walk_entries(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to, Seek seek, Skip skip,
                  Visit visit) {
    core::ClaimKey key = from, next = skip(from);
    bool sought = false;
    while (!(next == core::kLastKey) && next <= to) {
        if (!sought || key < next) seek(next);
        sought = true;
        if (!next_ready(jobs, &key) || to < key) return;
        CHECK_FOR_INTERRUPTS();
        next = skip(key);
        if (!(next == key)) continue;
        const Step step = visit(key);
        if (step == Step::Stop) return;
        if (step == Step::NextPriority) next = skip(core::next_key({INT64_MAX, INT64_MAX, key.priority}));
    }
}

// Calls visit(key) for the entries of a lane in the claim index, as walk_entries() does.
template <typename Skip, typename Visit>
void walk_lane(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to, Skip skip,
               Visit visit) {
    walk_entries(
        jobs, from, to, [&](const core::ClaimKey &key) { seek_ready_range(jobs, lane, key, to); }, skip, visit);
}

// Calls found(key) for the first job of each priority in a lane, after reading the row of the job into table.row.
// Returns the number of dead index entries that it passed.
template <typename Found>
int walk_priorities(JobsTable *jobs, int64 lane, bool skip_empty_ranges, Found found) {
    const core::EmptyRanges empty = read_empty_ranges(skip_empty_ranges ? trigger_epoch() : kNoEpoch, lane);
    int passed = 0;
    walk_lane(
        jobs, lane, core::kFirstKey, core::kLastKey,
        [&](const core::ClaimKey &key) { return core::skip_empty(empty, key); },
        [&](const core::ClaimKey &key) {
            if (!fetch_claimable(jobs)) {
                passed++;
                return Step::Next;
            }
            found(key);
            return Step::NextPriority;
        });
    return passed;
}

}  // namespace jobq
