// Takes the jobs of one lane and skips empty ranges, throttled ranges, suspects, and jobs that other claims took a
// moment ago. Only claim.cpp may call these functions.
#pragma once

#include "claim/take_job.h"
#include "compat/pg.h"
#include "core/claim_key.h"
#include "core/fairness.h"

namespace jobq {

constexpr int64 kAnyRoundRobinKey = core::kBeforeFirstRoundRobinKey;

// A lane, or a part of a lane, from which the worker may take jobs, and the earliest possible position of the next such
// job.
struct LaneCursor {
    int64 lane;
    int64 round_robin_key = kAnyRoundRobinKey;  // only jobs of this key; kAnyRoundRobinKey: jobs of all keys
    int16 priority = 0;                         // under priority_ageing: only jobs of this priority
    core::ClaimKey begin = core::kFirstKey;
    core::ClaimKey first_entry =
        core::kLastKey;  // first entry that the claim has met, claimable or not; kLastKey: none yet
    core::ClaimKey next;
    int passed = 0;     // number of entries of jobs that no longer exist
    int noted = 0;      // number of entries skipped because of a note about a recent claim
    bool seen = false;  // the claim has scanned the lane
    // true if the claim skips empty ranges and jobs with notes about recent claims; false if this transaction has
    // enqueued jobs into the lane, because those jobs might be in a range that is still recorded as empty
    bool skip_empty_ranges;
    int limited = 0;    // number of jobs skipped because their key has no room
    bool full = false;  // the claim has ended the scan because the kind of the lane has no room
};

// Returns whether the claim guesses how far its scans will go, so that they read no more of the index than they need
// (claim/read_ahead.h).
bool reads_ahead(const Claim &claim);

// Positions the scan at the first entry at or after `from`. The scan reads ahead to `expected`, and continues from
// there if necessary.
void seek_job(JobsTable *jobs, const LaneCursor &cursor, const core::ClaimKey &from, const core::ClaimKey &expected);

// Takes jobs from the cursor's lane up to the key `limit`. After this key, the next job in the order of the queue might
// be in another lane. Leaves the cursor at the lane's next entry, or at kLastKey if the lane is used up.
void take_from_lane(Claim *claim, LaneCursor *cursor, const core::ClaimKey &limit);

}  // namespace jobq
