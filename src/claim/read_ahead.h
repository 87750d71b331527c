// Guesses how far the scans of a claim are likely to go, so that they read no more of the index than they need
// (row/ready_scan.h). If a guess is too short, the scan reads further.
//
// Sessions share one guess per lane (lanes/empty_ranges.h), because each of them takes the first job of the lane next.
// Under priority_ageing, a claim reads the first entry of each priority but takes only one of these jobs, so most of
// these entries stay the first ones. Therefore, a session also keeps its own guess for each priority.
#pragma once

#include "core/claim_key.h"
#include "row/ready_scan.h"

namespace jobq {

// Number of single-job claims that one guess covers. Not larger, because a claim of this many jobs reads most of an
// index page anyway.
constexpr int kReadAhead = 32;

// Updates the guess that all sessions share, after a claim has taken a job of the lane: the next claims are likely to
// end kReadAhead entries after the entry that the scan has found last. Does nothing if the scan has not read that far.
// Moves the scan.
void expect_claims(ReadyScan *ready, int64 lane);
// Does the same under priority_ageing, for a claim that began at `from`.
void expect_claims_of_priority(ReadyScan *ready, int64 lane, const core::ClaimKey &from);

// Returns where a scan of the lane from `from` on is likely to end under priority_ageing, or kLastKey if this is
// unknown. `shared` is the result of expected_end(lane).
core::ClaimKey expected_in_priority(int64 lane, const core::ClaimKey &from, const core::ClaimKey &shared);
// Updates the session's guess after a search for the first entry at or after `from` has found an entry. Moves the scan.
void expect_looks(ReadyScan *ready, int64 lane, const core::ClaimKey &from);
// Discards the session's guess after a search for the first entry at or after `from` has found no entry.
void expect_nothing(int64 lane, const core::ClaimKey &from);

}  // namespace jobq
