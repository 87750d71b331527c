// How far the scans of a claim are likely to go, so that they read no more of the index than they need
// (job/ready_scan.h). All of it are guesses: where one is wrong, the scan goes on by itself.
//
// Sessions share one guess for each lane (lanes/empty_ranges.h): all of them take its first job next. Under
// priority_ageing a claim looks at the first entry of each priority, too, and most of these stay where they are. Of
// those a session keeps guesses of its own.
#pragma once

#include "job/ready_scan.h"
#include "lanes/claim_key_policy.h"

namespace jobq {

// The next so many single claims shall read no more of the index than they need. Whoever claims as many at a time reads
// most of a page anyway.
constexpr int kReadAhead = 32;

// Tells all sessions that the next claims of the lane are likely to end kReadAhead entries behind what the scan has
// found last, if it has read so far. Moves the scan.
void expect_claims(ReadyScan *ready, int64 lane);

// Where a look for the first entry of the lane at or behind `from` is likely to end; kLastKey: nobody knows. `shared`:
// what expected_end(lane) returned.
core::ClaimKey expected_look(int64 lane, const core::ClaimKey &from, const core::ClaimKey &shared);
// Such a look has found an entry. Moves the scan.
void expect_looks(ReadyScan *ready, int64 lane, const core::ClaimKey &from);

}  // namespace jobq
