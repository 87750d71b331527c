// See unthrottle.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "limits/limit_state.h"
#include "limits/limiter.h"
#include "limits/throttled_ranges.h"
#include "limits/unthrottle.h"
#include "log/transaction_log.h"
#include "row/job_scans.h"
#include "row/numbers.h"

#include <algorithm>

extern "C" {
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

using core::ClaimKey;
using core::EmptyRanges;

// Time after which a recorded key is processed again if another session was scanning the lane when the key was first
// processed. This is necessary because the ranges found by the other session were not stored yet.
constexpr core::Micros kWhileRefreshing = 20000;

ClaimKey key_of(TupleTableSlot *row) {
    bool is_null;
    return {DatumGetTimestampTz(slot_getattr(row, kJobRunAt, &is_null)),
            DatumGetInt64(slot_getattr(row, kJobId, &is_null)),
            DatumGetInt16(slot_getattr(row, kJobPriority, &is_null))};
}

// Returns how many jobs of a key can run now. `slots` is the number of slots for which the key was recorded. If the
// limit has no rate, one job can run for each slot. If the limit has a rate, one job can run for each token, but the
// result is at most max_running and at most `most`; more jobs are not needed, because each claimed job records the key
// again. If other claims have spent all tokens, returns 0 and sets *due to the time of the next token.
int runnable_jobs(std::string_view name, const Queue &queue, std::string_view key, int slots, int most, TimestampTz now,
                  TimestampTz *due) {
    const QueueLimit *limit = limit_of_key(queue, key);
    if (limit == nullptr || limit->rate.interval == 0) return slots;
    const int32 tokens = tokens_of(key_limit_id(name, key), queue_limit_id(name), limit->rate, now, due);
    const int32 places = limit->max_running < 0 ? most : Max(limit->max_running, 1);
    return std::clamp(tokens, 0, Min(most, places));
}

// Removes from the ranges the first `count` jobs of the key, in claim order. Returns the number of removed jobs, which
// is smaller if the ranges contain fewer jobs. Scans the index directly, even where jobq otherwise uses SQL to access
// rows, because this function writes nothing.
int unthrottle_first(JobsTable *jobs, int64 lane, std::string_view key, int count, const EmptyRanges &throttled) {
    Relation index = open_job_index_if_good(JobIndex::Keys);
    if (index == nullptr) {
        publish_keys(throttled_lane(lane), core::kFirstKey, core::kLastKey);
        return count;
    }
    TupleTableSlot *row = table_slot_create(jobs->table.relation, nullptr);
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(lane));
    ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(make_text(key)));
    IndexScanDesc scan = begin_index_scan(jobs->table.relation, index, jobs->table.snapshot, 2);
    index_rescan(scan, keys, 2, nullptr, 0);
    int found = 0;
    while (found < count && index_getnext_slot(scan, ForwardScanDirection, row)) {
        CHECK_FOR_INTERRUPTS();
        const ClaimKey at = key_of(row);
        // No range contains this job or any later job, so the scan can end.
        if (throttled.count == 0 || throttled.items[throttled.count - 1].keys.to <= at) break;
        if (core::skip_empty(throttled, at) == at || has_expired(row)) continue;
        // Publishes each job separately, because jobs of other keys might be between these jobs.
        publish_keys(throttled_lane(lane), at, at);
        found++;
    }
    index_endscan(scan);
    ExecDropSingleTupleTableSlot(row);
    index_close(index, AccessShareLock);
    return found;
}

}  // namespace

EmptyRanges throttled_ranges(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                             int most, TimestampTz now) {
    if (any_slot_freed_here()) return {};
    // Records the keys whose slots this transaction has freed, because this transaction itself can already use the
    // slots. The commit records the keys for other sessions.
    for (std::string_view of, freed; next_key_freed_here(&of, &freed);) unthrottle_key(of, freed, now, 1);
    const RangesOf throttled = throttled_lane(lane);
    char key[core::kMaxConcurrencyKeyBytes];
    for (;;) {
        int slots;
        bool all;
        const int length = next_unthrottled_key(lane, now, key, &slots, &all);
        if (all) publish_keys(throttled, core::kFirstKey, core::kLastKey);
        if (length == kNothingKept) return {};
        // Checks for a concurrent scan before reading the ranges, so that the ranges include the result of a scan that
        // ends between the check and the read.
        const bool refreshing = is_being_refreshed(throttled);
        const EmptyRanges ranges = read_empty_ranges(epoch, throttled);
        if (length == 0) return ranges;
        const std::string_view unthrottled(key, static_cast<size_t>(length));
        TimestampTz due = DT_NOEND;
        const int runnable = runnable_jobs(name, queue, unthrottled, slots, most, now, &due);
        if (runnable == 0) {
            unthrottle_key(name, unthrottled, due, kByRate);
            continue;
        }
        const int left = runnable - unthrottle_first(jobs, lane, unthrottled, runnable, ranges);
        if (left > 0 && refreshing)
            unthrottle_key(name, unthrottled, core::saturating_add(now, kWhileRefreshing), left);
    }
}

}  // namespace jobq
