// See take_from_lane.h.
#include "compat/pg.h"

#include "claim/read_ahead.h"
#include "claim/recent_claims.h"
#include "claim/take_from_lane.h"
#include "core/ablation.h"
#include "lanes/empty_ranges.h"
#include "lanes/ready_walk.h"
#include "limits/throttle.h"
#include "limits/throttled_ranges.h"
#include "limits/unthrottle.h"

namespace jobq {

namespace {

using core::ClaimKey;

// The ranges of a lane that the claim can skip.
struct Gaps {
    core::EmptyRanges empty, throttled;
};

void know_gaps(Claim *claim, LaneCursor *cursor, Gaps *gaps) {
    if (!cursor->skip_empty_ranges) return;
    gaps->empty = read_empty_ranges(claim->epoch, cursor->lane);
    if (claim->limiter == nullptr || !anything_throttled()) return;
    gaps->throttled = throttled_ranges(&claim->jobs, claim->name, claim->queue, cursor->lane, claim->epoch,
                                       claim->wanted - claim->count, claim->now);
    // A large number of throttled ranges shows that the ranges have become fragmented, so the claim determines them
    // again.
    if (gaps->throttled.count > core::kMaxEmptyRanges / 2) cursor->limited = Max(cursor->limited, kWorthThrottling);
}

ClaimKey skip_gaps(const Gaps &gaps, ClaimKey from) {
    for (;;) {
        const ClaimKey to = core::skip_empty(gaps.throttled, core::skip_empty(gaps.empty, from));
        if (to == from) return to;
        from = to;
    }
}

// Returns whether the claim uses a guess (claim/read_ahead.h) to limit how far its scan reads ahead. Only a claim of a
// few jobs uses the guess, because the guess is based on such claims.
bool is_sparing(const Claim &claim, const LaneCursor &cursor) {
    return cursor.skip_empty_ranges && reads_ahead(claim) && claim.request.batch < kReadAhead / 2;
}

// Returns the key at which a claim that begins at `from` is expected to end.
ClaimKey expected_last(const Claim &claim, const LaneCursor &cursor, const ClaimKey &from) {
    if (!is_sparing(claim, cursor)) return core::kLastKey;
    const ClaimKey end = expected_end(cursor.lane);
    return claim.queue.priority_ageing > 0 ? expected_in_priority(cursor.lane, from, end) : end;
}

// Updates the guess of where the next claims are likely to end, after this claim has taken all the jobs it wanted.
void expect_next_claims(Claim *claim, const LaneCursor &cursor, const ClaimKey &from) {
    if (!is_sparing(*claim, cursor)) return;
    if (claim->queue.priority_ageing > 0)
        expect_claims_of_priority(&claim->jobs.ready, cursor.lane, from);
    else
        expect_claims(&claim->jobs.ready, cursor.lane);
}

// Tries to take the job in table.row, whose queue has limits. Returns false if the claim can take none of the jobs at
// later entries.
bool try_limited_job(Claim *claim, LaneCursor *cursor) {
    switch (take_limited_job(claim)) {
        case Room::NotForKey:
            cursor->limited++;
            return cursor->round_robin_key == kAnyRoundRobinKey;
        case Room::NotForLane:
            cursor->full = true;
            return false;
        default:
            return true;
    }
}

// Tries to take the job at the scan's current entry. Returns false if the scan can end because the claim can take none
// of the jobs at later entries.
bool try_entry(Claim *claim, LaneCursor *cursor, const ClaimKey &key) {
    if (claim->skip_recent_claims && cursor->skip_empty_ranges && recently_claimed(key.id, claim->now)) {
        cursor->noted++;
    } else if (!fetch_claimable(&claim->jobs)) {
        cursor->passed++;
    } else if (passes_over(claim)) {
        return true;
    } else if (claim->limiter == nullptr) {
        take_job(claim);
    } else {
        return try_limited_job(claim, cursor);
    }
    return true;
}

// Returns whether the claim has passed so many expired jobs that it leaves the rest of the lane to the next claim. It
// does so only if it can record what it has passed, because otherwise the next claim would not get any further. A
// round-robin claim cannot, because jobs of other keys lie between the jobs of its key.
bool leaves_rest(const Claim &claim, const LaneCursor &cursor) {
    return cursor.passed >= kMaxPassedExpired && claim.jobs.met_expired && cursor.skip_empty_ranges &&
           cursor.round_robin_key == kAnyRoundRobinKey && keeps_empty_ranges(claim.epoch);
}

}  // namespace

bool reads_ahead(const Claim &claim) {
    return core::built_with(core::Mechanism::ReadAhead) && !claim.queue.round_robin;
}

void seek_job(JobsTable *jobs, const LaneCursor &cursor, const ClaimKey &from, const ClaimKey &expected) {
    if (cursor.round_robin_key == kAnyRoundRobinKey)
        seek_ready(jobs, cursor.lane, from, expected);
    else
        seek_round_robin_key(jobs, cursor.lane, cursor.round_robin_key, from);
}

void take_from_lane(Claim *claim, LaneCursor *cursor, const ClaimKey &limit) {
    Gaps gaps = {};
    know_gaps(claim, cursor, &gaps);
    const ClaimKey from = cursor->next = skip_gaps(gaps, cursor->next);
    if (from == core::kLastKey || limit < from) return;
    cursor->seen = true;
    seek_job(&claim->jobs, *cursor, from, expected_last(*claim, *cursor, from));
    ClaimKey key = from;
    while (next_ready(&claim->jobs, &key)) {
        if (key < cursor->first_entry) cursor->first_entry = key;
        cursor->next = skip_gaps(gaps, key);
        if (cursor->next == core::kLastKey || limit < cursor->next) return;
        if (key < cursor->next) {
            seek_job(&claim->jobs, *cursor, cursor->next, core::kLastKey);
            continue;
        }
        if (!try_entry(claim, cursor, key)) break;
        if (claim->closed) return;
        cursor->next = core::next_key(key);
        if (leaves_rest(*claim, *cursor)) {
            claim->closed = true;
            return;
        }
        if (claim->count < claim->wanted) continue;
        expect_next_claims(claim, *cursor, from);
        return;
    }
    cursor->next = core::kLastKey;
}

}  // namespace jobq
