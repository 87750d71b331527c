// Guesses how far the scans of a claim are likely to go, so that the scans read no more of the index than they need
// (row/ready_scan.h). If a guess is too short, the scan reads further.
//
// Sessions share one guess per lane (lanes/empty_ranges.h), because each session takes the job that is first in the
// lane at that time. Under priority_ageing, a claim reads the first entry of each priority but takes only one of these
// jobs, so most of these entries stay the first ones of their priorities. Therefore, a session also keeps its own guess
// for each priority.
#pragma once

#include "core/claim_key.h"
#include "row/ready_scan.h"

namespace jobq {

// Number of single-job claims that one guess covers. A larger number would not help, because a scan that covers this
// many claims reads most of an index page anyway.
constexpr int kReadAhead = 32;

// Updates the guess that all sessions share, after a claim has taken a job from the lane. The new guess is that the
// next claims end kReadAhead entries after the last entry that the scan found, or earlier if fewer entries follow. Does
// nothing if only a few entries follow. Moves the scan.
void expect_claims(ReadyScan *ready, int64 lane);
// Like expect_claims(), but for a claim under priority_ageing that began at `from`. Also updates the session's guess
// for the priority.
void expect_claims_of_priority(ReadyScan *ready, int64 lane, const core::ClaimKey &from);

// Returns where a scan that begins at `from` in the lane is likely to end under priority_ageing, or kLastKey if the end
// is unknown. `shared` is the result of expected_end(lane).
core::ClaimKey expected_in_priority(int64 lane, const core::ClaimKey &from, const core::ClaimKey &shared);
// Updates the session's guess after a search for the first entry at or after `from` has found an entry. Moves the scan.
void expect_looks(ReadyScan *ready, int64 lane, const core::ClaimKey &from);
// Discards the session's guess after a search for the first entry at or after `from` has found no entry.
void expect_nothing(int64 lane, const core::ClaimKey &from);

}  // namespace jobq
