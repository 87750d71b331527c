// Reads the argument `statuses` of operations on many jobs.
#pragma once

#include "admin/operate.h"
#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

// Returns the argument `statuses`, number n, as text[]. If it is absent, returns the statuses for which
// by_default(operation, status) is true. Raises 22023 for a status that the operation does not apply to.
Datum read_statuses(FunctionCallInfo fcinfo, int n, Operation operation,
                    bool (*by_default)(Operation, core::JobStatus));

// Raises 22023 if the number of jobs is negative.
int32 check_max_jobs(int32 max_jobs);

}  // namespace jobq
