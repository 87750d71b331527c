// See throttle.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "lanes/ready_walk.h"
#include "lanes/refresh.h"
#include "limits/limiter.h"
#include "limits/throttle.h"
#include "limits/throttled_ranges.h"

namespace jobq {

namespace {

using core::ClaimKey;
using core::EmptyRanges;

// Returns whether the limit of the concurrency key of the job in table.row prevents the job from running. If the job
// waits for a token, records that jobs of the key can run when the next token arrives.
bool is_throttled(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now) {
    TimestampTz due = DT_NOEND;
    if (!waits_for_key(jobs, name, queue, now, &due)) return false;
    if (due != DT_NOEND) unthrottle_key(name, view(DatumGetTextPP(job_value(jobs, kJobConcurrencyKey))), due, kByRate);
    return true;
}

}  // namespace

void throttle_jobs(JobsTable *jobs, std::string_view name, const Queue &queue, int64 lane, uint64 epoch,
                   TimestampTz now) {
    if (has_new_files(jobs->table.relation) || !keep_keys_for(name, lane)) return;
    const RangesOf throttled = throttled_lane(lane);
    const uint64 ticket = begin_refresh(epoch, throttled, 0);
    if (ticket == 0) return;
    const EmptyRanges empty = read_empty_ranges(epoch, lane), known = read_empty_ranges(epoch, throttled);
    renew_snapshot(jobs);
    // As in refresh_lane(), jobs that this transaction has claimed still count as pending, because the claim might be
    // rolled back.
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
            // The scan skips the ranges that are already known to be empty or throttled. A new range that includes a
            // skipped range is always worth storing, however few other jobs it contains.
            if (key < next) passed += kWorthKeeping;
            return next;
        },
        [&](const ClaimKey &key) {
            if (!fetch_claimable(jobs)) return Step::Next;
            if (is_throttled(*jobs, name, queue, now)) {
                passed++;
                return Step::Next;
            }
            if (passed >= kWorthKeeping) core::add_empty(&found, {from, key}, passed);
            from = core::next_key(key);
            passed = 0;
            return ++seen < kMaxJobsSeen ? Step::Next : Step::Stop;
        });
    // Ends the last range at the last index entry, so that the range does not contain jobs that are added after this
    // entry.
    if (seen < kMaxJobsSeen && passed >= kWorthKeeping) core::add_empty(&found, {from, core::next_key(last)}, passed);
    finish_refresh(throttled, ticket, found);
}

}  // namespace jobq
