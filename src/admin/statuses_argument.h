// The argument `statuses` of operations on many jobs.
#pragma once

#include "admin/operate.h"
#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

// The argument `statuses`, number n, as text[]. When it is absent, those that by_default(operation, status) says. 22023
// for one that the operation does not apply to.
Datum read_statuses(FunctionCallInfo fcinfo, int n, Operation operation,
                    bool (*by_default)(Operation, core::JobStatus));

// 22023 if a number of jobs is negative.
int32 check_max_jobs(int32 max_jobs);

}  // namespace jobq
