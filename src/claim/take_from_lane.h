// How a claim takes the jobs of one lane, past what need not be looked at: empty ranges, throttled ones, suspects, and
// what others have claimed a moment ago.
// Who may call it: claim.cpp.
#pragma once

#include "claim/fairness_policy.h"
#include "claim/take_job.h"
#include "compat/pg.h"
#include "lanes/claim_key_policy.h"

namespace jobq {

constexpr int64 kAnyRoundRobinKey = core::kBeforeFirstRoundRobinKey;

// A lane that the worker may take jobs from, or a part of one, and where its next job can be at the earliest.
struct LaneCursor {
    int64 lane;
    int64 round_robin_key;  // only jobs of this one; kAnyRoundRobinKey
    int16 priority;         // only jobs of this one, under priority_ageing
    core::ClaimKey begin;
    core::ClaimKey first_entry;  // that the claim has met, of whatever job; kLastKey: none yet
    core::ClaimKey next;
    int passed;              // entries of jobs that are gone
    int noted;               // entries passed over because somebody claimed the job a moment ago
    bool seen;               // the claim has been there
    bool skip_empty_ranges;  // and notes; not for what this very transaction has enqueued: nobody has been told of it
                             // yet
    int limited;             // jobs passed over because of their keys
};

// Whether its scans may know how much of the index they need.
bool reads_ahead(const Claim &claim);

// Goes to the first entry from `from` on. A scan reads ahead to `expected`, and further if it must.
void seek_job(JobsTable *jobs, const LaneCursor &cursor, const core::ClaimKey &from, const core::ClaimKey &expected);

// Takes jobs of the cursor's lane as long as no other lane can have an earlier one, i.e. up to `limit`. Leaves the
// cursor where the lane goes on; kLastKey: at its end.
void take_from_lane(Claim *claim, LaneCursor *cursor, const core::ClaimKey &limit);

}  // namespace jobq
