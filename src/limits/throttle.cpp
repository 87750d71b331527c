// See throttle.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "lanes/ready_walk.h"
#include "lanes/refresh.h"
#include "limits/limit_state.h"
#include "limits/limiter.h"
#include "limits/throttle.h"
#include "limits/throttled_ranges.h"
#include "log/transaction_log.h"
#include "row/numbers.h"

#include <algorithm>

extern "C" {
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

using core::ClaimKey;
using core::EmptyRanges;

// Time after which a recorded key is processed again if another session was scanning the lane when it was first
// processed, because the ranges that the other session finds were not stored yet.
constexpr core::Micros kWhileRefreshing = 20000;

ClaimKey key_of(TupleTableSlot *row) {
    bool is_null;
    return {DatumGetTimestampTz(slot_getattr(row, kJobRunAt, &is_null)),
            DatumGetInt64(slot_getattr(row, kJobId, &is_null)),
            DatumGetInt16(slot_getattr(row, kJobPriority, &is_null))};
}

// Returns how many jobs may run now of a key that was recorded for `slots` slots. If the limit has no rate, this is one
// job for each slot. If it has a rate, this is one job for each token, but at most max_running or `most` jobs, because
// each claimed job records the key again. If other claims have spent all tokens, returns 0 and sets *due to the time of
// the next token.
int runnable_jobs(std::string_view name, const Queue &queue, std::string_view key, int slots, int most, TimestampTz now,
                  TimestampTz *due) {
    const QueueLimit *limit = limit_of_key(queue, key);
    if (limit == nullptr || limit->rate.interval == 0) return slots;
    const int32 tokens = tokens_of(key_limit_id(name, key), queue_limit_id(name), limit->rate, now, due);
    const int32 places = limit->max_running < 0 ? most : Max(limit->max_running, 1);
    return std::clamp(tokens, 0, Min(most, places));
}

// Removes at most `count` jobs of the key, the first in claim order, from the ranges and returns their number. Scans
// the index directly even where jobq otherwise uses SQL to access rows, because this function writes nothing.
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
        // No range contains this job or later jobs.
        if (throttled.count == 0 || throttled.items[throttled.count - 1].keys.to <= at) break;
        if (core::skip_empty(throttled, at) == at) continue;
        // Publishes each job separately, because jobs of other keys are between them.
        publish_keys(throttled_lane(lane), at, at);
        found++;
    }
    index_endscan(scan);
    ExecDropSingleTupleTableSlot(row);
    index_close(index, AccessShareLock);
    return found;
}

// Returns whether the limit of its key prevents the job in table.row from running. If the job waits for a token,
// records that jobs of the key may run when the next token arrives.
bool is_throttled(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now) {
    TimestampTz due = DT_NOEND;
    if (!waits_for_key(jobs, name, queue, now, &due)) return false;
    if (due != DT_NOEND) unthrottle_key(name, view(DatumGetTextPP(job_value(jobs, kJobConcurrencyKey))), due, kByRate);
    return true;
}

}  // namespace

EmptyRanges throttled_ranges(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                             int most, TimestampTz now) {
    if (any_slot_freed_here()) return {};
    // Records the keys whose slots this transaction has freed, because this transaction can use the slots. The commit
    // records them for other sessions.
    for (std::string_view of, freed; next_key_freed_here(&of, &freed);) unthrottle_key(of, freed, now, 1);
    const RangesOf throttled = throttled_lane(lane);
    char key[core::kMaxConcurrencyKeyBytes];
    for (;;) {
        int slots;
        bool all;
        const int length = next_unthrottled_key(lane, now, key, &slots, &all);
        if (all) publish_keys(throttled, core::kFirstKey, core::kLastKey);
        if (length == kNothingKept) return {};
        // Checks this before reading the ranges, so that the ranges include the result of a scan that ends in between.
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

void throttle_jobs(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                   TimestampTz now) {
    if (has_new_files(jobs->table.relation) || !keep_keys_for(name, lane)) return;
    const RangesOf throttled = throttled_lane(lane);
    const uint64 ticket = begin_refresh(epoch, throttled, 0);
    if (ticket == 0) return;
    const EmptyRanges empty = read_empty_ranges(epoch, lane), known = read_empty_ranges(epoch, throttled);
    renew_snapshot(jobs);
    // As in refresh_lane, jobs that this transaction has claimed count as pending.
    jobs->table.snapshot->curcid = FirstCommandId;

    EmptyRanges found = {};
    ClaimKey from = core::kFirstKey, last = core::kFirstKey;
    int64 passed = 0;
    int seen = 0;
    walk_lane(
        jobs, lane, core::skip_empty(empty, core::kFirstKey), core::kLastKey,
        [&](const ClaimKey &key) {
            last = key;
            const ClaimKey next = core::skip_empty(known, core::skip_empty(empty, key));
            // The scan skips a range that is already throttled. This is a sufficient reason to keep the new range,
            // which includes it.
            if (key < next) passed += kWorthKeeping;
            return next;
        },
        [&](const ClaimKey &key) {
            if (!fetch_ready(jobs)) return Step::Next;
            if (is_throttled(*jobs, name, queue, now)) {
                passed++;
                return Step::Next;
            }
            if (passed >= kWorthKeeping) core::add_empty(&found, {from, key}, passed);
            from = core::next_key(key);
            passed = 0;
            return ++seen < kMaxJobsSeen ? Step::Next : Step::Stop;
        });
    // Ends the range at the last index entry, because jobs that come after it will be published.
    if (seen < kMaxJobsSeen && passed >= kWorthKeeping) core::add_empty(&found, {from, core::next_key(last)}, passed);
    finish_refresh(throttled, ticket, found);
}

}  // namespace jobq
