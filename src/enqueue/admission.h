// Whether the jobs of one call may enter their queues, judged for all of them before the first is enqueued.
#pragma once

#include "compat/pg.h"
#include "core/unique_key.h"
#include "enqueue/depth.h"

namespace jobq {

// A job that is to be enqueued into a queue with a max_depth.
struct Newcomer {
    text *queue;
    text *unique_key;  // nullptr: none
    core::OnConflict on_conflict;
};

// Makes room (enqueue/depth.h) in each of the queues for those of these jobs that are new by what can be seen: a key
// counts once, and not if a job has it already. That job, with which the call will answer, is not dropped for the
// others, nor are those that they depend on, `needed`. Sorts `jobs`. 53400 when there is no room.
void admit_jobs(Newcomer *jobs, int count, TimestampTz now, const SparedJobs &needed = {nullptr, 0});

}  // namespace jobq
