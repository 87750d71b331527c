// Checks whether the queues have room for the jobs of a call. A call checks this for all of its jobs before it enqueues
// the first job.
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

// Makes room (enqueue/depth.h) in each queue for the jobs that, according to the snapshot, will be inserted. Several
// jobs with the same unique key count as one job, or as none if an existing job has the key. Never drops an existing
// job that has the key of a new job, because the call returns the id of the existing job. Never drops the jobs on which
// the new jobs depend (`needed`). Sorts `jobs`. Raises 53400 if there is not enough room.
void admit_jobs(Newcomer *jobs, int count, TimestampTz now, const SparedJobs &needed = {nullptr, 0});

}  // namespace jobq
