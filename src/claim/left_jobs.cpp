// See left_jobs.h.
#include "compat/pg.h"

#include "claim/left_jobs.h"
#include "claim/recent_claims.h"
#include "lanes/lanes.h"
#include "lanes/ready_walk.h"
#include "limits/limiter.h"
#include "limits/throttled_ranges.h"
#include "limits/unthrottle.h"
#include "waiters/claims.h"
#include "waiters/lookout.h"

namespace jobq {

namespace {

// Maximum numbers of lanes and of index entries that a claim checks for remaining jobs, so that the check costs less
// than the claim. If one of these limits is reached, the next worker is woken even though it is unknown whether a job
// is left.
constexpr int kMaxLanes = 64;
constexpr int kMaxEntries = 128;

enum class Left { Yes, No, NoneInLane };

// Returns whether the job at the scan's current entry is claimable, as far as this can be determined without locking
// the row.
Left left_at(Claim *claim, const core::ClaimKey &key) {
    if (recently_claimed(key.id, claim->now) || !fetch_claimable(&claim->jobs) ||
        !has_status(claim->jobs, core::JobStatus::Pending) || row_is_held(claim->jobs.table))
        return Left::No;
    if (claim->limiter == nullptr) return Left::Yes;
    TimestampTz due = DT_NOEND;
    // All jobs of a lane have the same kind and the same named limits.
    if (waits_for_lane(claim->jobs, claim->name, claim->queue, claim->now, &due)) return Left::NoneInLane;
    return waits_for_key(claim->jobs, claim->name, claim->queue, claim->now, &due) ? Left::No : Left::Yes;
}

bool leaves_job(Claim *claim, int64 lane, const core::ClaimKey &from, int *entries) {
    core::EmptyRanges throttled = {};
    if (claim->limiter != nullptr && anything_throttled())
        throttled = throttled_ranges(&claim->jobs, claim->name, claim->queue, lane, claim->epoch, 1, claim->now);
    bool found = false;
    walk_lane(
        &claim->jobs, lane, from, core::kLastKey,
        [&](const core::ClaimKey &key) { return core::skip_empty(throttled, key); },
        [&](const core::ClaimKey &key) {
            const Left left = left_at(claim, key);
            if (left == Left::NoneInLane) return Step::Stop;
            found = left == Left::Yes;
            // The scan has reached its limit without finding a job. If the queue has limits, assumes that no job is
            // left, because a freed slot or a new token wakes the waiting workers anyway.
            if (++*entries == kMaxEntries) found = found || claim->limiter == nullptr;
            return found || *entries == kMaxEntries ? Step::Stop : Step::Next;
        });
    return found;
}

// Returns whether, in each lane, the claim has taken all claimable jobs before the position of the lane's cursor.
bool cursors_are_exact(const Claim &claim) { return !claim.queue.round_robin && claim.queue.priority_ageing == 0; }

}  // namespace

bool wake_for_left_jobs(Claim *claim, const LaneCursor *lanes, int count) {
    if (!anybody_waits(claim->name)) return false;
    TimestampTz due;
    if (claim->limiter != nullptr && !queue_may_run(claim->queue, claim->name, claim->now, &due)) return false;
    int entries = 0;
    for (int i = 0; i < count && entries < kMaxEntries; i++) {
        const core::ClaimKey possible = first_possible_key(claim->epoch, lanes[i].lane);
        const core::ClaimKey from = cursors_are_exact(*claim) && possible < lanes[i].next ? lanes[i].next : possible;
        if (from == core::kLastKey) continue;
        core::LaneTraits traits;
        const bool known = traits_of_lane(claim->name, lanes[i].lane, &traits);
        if (known && leave_to_lookout(claim->name, traits, 1)) continue;
        if (i < kMaxLanes && !leaves_job(claim, lanes[i].lane, from, &entries)) continue;
        return known && wake_next_waiter(claim->name, traits);
    }
    return false;
}

bool find_first_job(Claim *claim, const LaneCursor *lanes, int count, core::ClaimKey *key) {
    *key = core::kLastKey;
    for (int i = 0; i < count; i++) {
        const core::EmptyRanges empty =
            lanes[i].skip_empty_ranges ? read_empty_ranges(claim->epoch, lanes[i].lane) : core::EmptyRanges{};
        int entries = 0;
        walk_lane(
            &claim->jobs, lanes[i].lane, lanes[i].next, *key,
            [&](const core::ClaimKey &at) { return core::skip_empty(empty, at); },
            [&](const core::ClaimKey &at) {
                const Left left = left_at(claim, at);
                if (left == Left::NoneInLane) return Step::Stop;
                if (left == Left::No && ++entries < kMaxEntries) return Step::Next;
                if (at < *key) *key = at;
                return Step::Stop;
            });
    }
    return !(*key == core::kLastKey);
}

}  // namespace jobq
