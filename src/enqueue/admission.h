// Decides whether the jobs of a call may enter their queues. A call decides this for all of its jobs before it enqueues
// the first one.
#pragma once

#include "compat/pg.h"
#include "core/unique_key.h"
#include "enqueue/depth.h"

namespace jobq {

// A job to enqueue into a queue with a max_depth.
struct Newcomer {
    text *queue;
    text *unique_key;  // nullptr: none
    core::OnConflict on_conflict;
};

// Makes room (enqueue/depth.h) in each queue for the jobs that will be new, as far as the snapshot shows: of several
// jobs with the same unique key, one counts, and none if an existing job has the key. Never drops such an existing job,
// because the call will return it, nor the jobs that the new jobs depend on (`needed`). Sorts `jobs`. Raises 53400 if
// there is not enough room.
void admit_jobs(Newcomer *jobs, int count, TimestampTz now, const SparedJobs &needed = {nullptr, 0});

}  // namespace jobq
