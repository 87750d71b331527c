// Takes the jobs of one lane and skips empty ranges, throttled ranges, suspects, and jobs that other claims took a
// moment ago. Only claim.cpp may call this.
#pragma once

#include "claim/take_job.h"
#include "compat/pg.h"
#include "core/claim_key.h"
#include "core/fairness.h"

namespace jobq {

constexpr int64 kAnyRoundRobinKey = core::kBeforeFirstRoundRobinKey;

// A lane that the worker may take jobs from, or a part of such a lane, and the earliest position of its next job.
struct LaneCursor {
    int64 lane;
    int64 round_robin_key;  // only jobs of this key; kAnyRoundRobinKey: jobs of all keys
    int16 priority;         // under priority_ageing: only jobs of this priority
    core::ClaimKey begin;
    core::ClaimKey first_entry;  // first entry that the claim has met, claimable or not; kLastKey: none yet
    core::ClaimKey next;
    int passed;  // number of entries of jobs that no longer exist
    int noted;   // number of entries skipped because of a note about a recent claim
    bool seen;   // the claim has scanned the lane
    // The claim skips empty ranges and jobs with notes about recent claims. False if this transaction has itself
    // enqueued into the lane, because its jobs may be in a range that is still recorded as empty.
    bool skip_empty_ranges;
    int limited;  // number of jobs skipped because their key has no room
};

// Returns whether the claim's scans can use a guess of how much of the index they need (claim/read_ahead.h).
bool reads_ahead(const Claim &claim);

// Positions the scan at the first entry at or after `from`. The scan reads ahead to `expected`, and further if
// necessary.
void seek_job(JobsTable *jobs, const LaneCursor &cursor, const core::ClaimKey &from, const core::ClaimKey &expected);

// Takes jobs of the cursor's lane up to `limit`, as long as no other lane can have an earlier job. Leaves the cursor at
// the lane's next entry, or at kLastKey if the lane is used up.
void take_from_lane(Claim *claim, LaneCursor *cursor, const core::ClaimKey &limit);

}  // namespace jobq
