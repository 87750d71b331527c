// Arguments that the functions on steps share.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "finish/held_jobs.h"
#include "steps/steps.h"

namespace jobq {

// 22004, 42602, 42622.
text *step_name_argument(FunctionCallInfo fcinfo, int n, const char *name);
text *event_argument(FunctionCallInfo fcinfo, int n);
// 54000 when it is larger than jobq.max_step_bytes.
void check_step_size(Datum value, const char *name);

// The number of a step that is to be saved. 54000 when the job has too many.
int64 next_step(const JobState &job);

// Locks the row of a job under its lease, and takes a number for a step that is to be saved: *number, unless it is
// saved already. job->held says whether the job is held at all. Inside with_spi().
SavedStep save_under_lease(HeldJob *job, const QueueScope *scope, const StepUse &use, int64 *number);

}  // namespace jobq
