// Arguments that the functions on steps share.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "ending/held_jobs.h"
#include "steps/step_policy.h"

namespace jobq {

// 22004, 42602, 42622.
text *step_name_argument(FunctionCallInfo fcinfo, int n, const char *name);
text *event_argument(FunctionCallInfo fcinfo, int n);
// 54000 when it is larger than jobq.max_step_bytes.
void check_step_size(Datum value, const char *name);

// The first two arguments. A NULL lease: claimed in this transaction. Inside with_spi().
HeldJob held_argument(FunctionCallInfo fcinfo);

// The number of a step that is to be saved. 54000 when the job has too many.
int64 next_step(const JobState &job);

}  // namespace jobq
