// Finds and cancels jobs from earlier runs of a schedule that are unfinished when the schedule fires again. A job is
// treated as a job of the schedule only if its metadata names the schedule, because a recorded job id that came from
// another database might be the id of an unrelated job here.
#pragma once

#include "compat/pg.h"
#include "schedules/schedule.h"

namespace jobq {

// Returns whether the job of the last run is unfinished at the time `now`. A job that has expired is finished. Takes no
// locks.
bool last_job_unfinished(const Schedule &schedule, TimestampTz now);

// A list of job ids in ascending order.
struct JobIds {
    Datum *items;  // int8
    int count;
};
// Cancels the unfinished jobs that the schedule has recorded; running jobs are asked to stop. Returns the jobs that are
// still unfinished. Waits up to lock_timeout for sessions that have locked one of the jobs.
JobIds cancel_unfinished(const Schedule &schedule, TimestampTz now);

// Returns whether one of the jobs in `ids` holds the unique key of the new job.
bool one_has_key(const JobIds &ids, const JobSpec &job);

// Scans all jobs and returns the unfinished jobs of the schedule that are in the queue of the schedule, but at most
// 10,000 jobs. This is needed for a schedule that has not recorded its unfinished jobs yet. Other queues are excluded,
// because a producer can write any schedule name into the metadata of its jobs.
JobIds find_unfinished(const ScheduleSpec &spec);

}  // namespace jobq
