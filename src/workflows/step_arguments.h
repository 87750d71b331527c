// Reads and checks the arguments that several functions for steps have in common.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "finish/held_jobs.h"
#include "steps/steps.h"

namespace jobq {

// These functions return the argument. They raise 22004, 42602, or 42622 if the argument is not a valid name.
text *step_name_argument(FunctionCallInfo fcinfo, int n, const char *name);
text *event_argument(FunctionCallInfo fcinfo, int n);
// Raises 54000 if the value is larger than jobq.max_step_bytes.
void check_step_size(Datum value, const char *name);

// Returns the number of the job's next step. Raises 54000 if the job has too many steps.
int64 next_step(const JobState &job);

// Locks the row of a job under its lease. If the step is not saved yet, reserves a number for the step and stores it in
// *number. Sets job->held to whether the worker holds the job. Call it inside with_spi().
SavedStep save_under_lease(HeldJob *job, const QueueScope *scope, const StepUse &use, int64 *number);

}  // namespace jobq
