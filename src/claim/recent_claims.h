// Notes in shared memory about jobs that were claimed a moment ago. Many concurrent claims find the same jobs at the
// head of a lane. Without notes, each claim would fetch, and try to lock, the rows that other claims have just taken.
// With 256 concurrent claims, this would be most of the work. Therefore, a claim leaves a note for each job, and other
// claims skip the index entry of the job without fetching the row.
//
// A note is a hint that lives for a fraction of a second. It is wrong if the claim is rolled back, and it is lost if
// another note overwrites it. A claim that finds too few jobs scans again and ignores the notes.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Leaves a note that a claim has just locked this job in the session's database.
void remember_claim(int64 job, TimestampTz now);
// Returns whether a note says that a claim took the job a moment ago.
bool recently_claimed(int64 job, TimestampTz now);
// Invalidates all notes of all databases, because jobs that were claimed might be claimable again.
void forget_recent_claims();

// main/jobq.cpp calls these functions to set up the notes in shared memory.
Size recent_claims_size();
void make_recent_claims(void *memory, bool fresh);

}  // namespace jobq
