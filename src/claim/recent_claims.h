// Jobs that were claimed a moment ago. Many claimers find the same jobs at the head of a lane, and each would fetch and
// try to lock the rows that the others have just taken: with 256 of them that is most of the work. So a claim leaves a
// note, and the others pass over the entry without looking at the row.
//
// A note is a hint of a fraction of a second: it may be wrong when the claim is rolled back, and is lost when another
// falls into its place. A claim that finds too few jobs looks again without the notes.
#pragma once

#include "compat/pg.h"

namespace jobq {

// This job of the session's database has just been locked by a claim.
void remember_claim(int64 job, TimestampTz now);
// Whether somebody claimed it a moment ago.
bool recently_claimed(int64 job, TimestampTz now);
// Jobs that were claimed may be claimable again: all notes of all databases are void.
void forget_recent_claims();

// For main/jobq.cpp: its part of the shared memory.
Size recent_claims_size();
void make_recent_claims(void *memory, bool fresh);

}  // namespace jobq
