// Jobs that await something (jobq_await, jobq_await_jobs). What they await, a signal or the end of another job
// (job_ends.h), may have come just before they began to wait, unseen by them, or may come later. So a commit that makes
// a job wait tells of the job, and one that signals tells of the event, one that ends a job of that: whichever of the
// two becomes visible later, the look that follows sees both. Whoever is set free looks for itself once more, under its
// lease: a look in vain costs a claim, and decides nothing.
#pragma once

#include "compat/pg.h"
#include "groups/unblock.h"

namespace jobq {

// For groups/unblock.cpp. A key is a job that waits, or that has ended, or minus the hash of the event
// (core::event_hash). Of those that await it jobs from Unblocked::job on are to be looked at.
void look_at_waits(const Unblocked *told, int count, Unblocking *done);
bool search_waits(SearchPlace *place, int limit, Unblocking *done);

}  // namespace jobq
