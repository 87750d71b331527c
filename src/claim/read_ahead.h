// Guesses how far the scans of a claim are likely to go, so that they read no more of the index than they need
// (row/ready_scan.h). If a guess is wrong, the scan reads on.
//
// Sessions share one guess per lane (lanes/empty_ranges.h), because all of them take the lane's first job next. Under
// priority_ageing a claim looks at the first entry of each priority, and most of these entries stay where they are, so
// a session also keeps its own guess for each priority.
#pragma once

#include "core/claim_key.h"
#include "row/ready_scan.h"

namespace jobq {

// Number of single-job claims that one guess covers, so that they read no more of the index than they need. A claim of
// that many jobs reads most of a page anyway.
constexpr int kReadAhead = 32;

// Shares a guess with all sessions after a claim has taken a job of the lane: the next claims are likely to end
// kReadAhead entries after the entry that the scan found last, if the scan has read that far. Moves the scan.
void expect_claims(ReadyScan *ready, int64 lane);
// Does the same under ageing, for a claim that began at `from`.
void expect_claims_of_priority(ReadyScan *ready, int64 lane, const core::ClaimKey &from);

// Returns where a scan of the lane from `from` on is likely to end under ageing, or kLastKey if this is unknown.
// `shared` is the result of expected_end(lane).
core::ClaimKey expected_in_priority(int64 lane, const core::ClaimKey &from, const core::ClaimKey &shared);
// Updates the session's guess after a look for the first entry at or after `from` has found one. Moves the scan.
void expect_looks(ReadyScan *ready, int64 lane, const core::ClaimKey &from);
// Discards the session's guess after a look from `from` on has found no entry.
void expect_nothing(int64 lane, const core::ClaimKey &from);

}  // namespace jobq
