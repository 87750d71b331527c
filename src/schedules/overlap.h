// The jobs of a schedule that have not finished when it fires again. Only a job that says it is the schedule's counts:
// a number that came from elsewhere may be another job's.
#pragma once

#include "compat/pg.h"
#include "schedules/schedule.h"

namespace jobq {

// Whether the last job is unfinished. Waits for nobody.
bool last_job_unfinished(const Schedule &schedule);

// Ids, in their order.
struct JobIds {
    Datum *items;  // int8
    int count;
};
// Cancels the jobs that are known to be unfinished; those that run are asked to stop. Returns what is unfinished still.
// Waits for who holds one of them, as long as lock_timeout lets it.
JobIds cancel_unfinished(const Schedule &schedule, TimestampTz now);

// Whether one of these has the unique key that the job wants.
bool one_has_key(const JobIds &ids, const JobSpec &job);

// All of them in its queue, by a look at every job: for a schedule that kept no account so far. Whoever enqueues
// elsewhere says in the metadata what he likes.
JobIds find_unfinished(const ScheduleSpec &spec);

}  // namespace jobq
