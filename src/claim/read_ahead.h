// How far the scans of a claim are likely to go, so that they read no more of the index than they need
// (job/ready_scan.h). All of it are guesses: where one is wrong, the scan goes on by itself.
//
// Sessions share one guess for each lane (lanes/empty_ranges.h), since all of them take its first job next. Under
// priority_ageing a claim looks at the first entry of each priority, and most of these stay where they are: of each
// priority a session keeps a guess of its own, too.
#pragma once

#include "job/ready_scan.h"
#include "lanes/claim_key_policy.h"

namespace jobq {

// The next so many single claims shall read no more of the index than they need. Whoever claims as many at a time reads
// most of a page anyway.
constexpr int kReadAhead = 32;

// A claim has taken a job of the lane: tells all sessions where the next ones are likely to end, kReadAhead entries
// behind what the scan has found last, if the scan has read so far. Moves the scan.
void expect_claims(ReadyScan *ready, int64 lane);
// The same under ageing, for a claim that began at `from`.
void expect_claims_of_priority(ReadyScan *ready, int64 lane, const core::ClaimKey &from);

// Where a scan of the lane from `from` on is likely to end under ageing; kLastKey: nobody knows. `shared`: what
// expected_end(lane) returned.
core::ClaimKey expected_in_priority(int64 lane, const core::ClaimKey &from, const core::ClaimKey &shared);
// A look for the first entry at or behind `from` has found one. Moves the scan.
void expect_looks(ReadyScan *ready, int64 lane, const core::ClaimKey &from);
// It has found none.
void expect_nothing(int64 lane, const core::ClaimKey &from);

}  // namespace jobq
