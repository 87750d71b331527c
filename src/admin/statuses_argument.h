// Reads the argument `statuses` of operations on many jobs.
#pragma once

#include "admin/operate.h"
#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

// Returns the argument `statuses`, which is argument number `n`, as text[]. If it is omitted, returns the statuses for
// which by_default(operation, status) is true. Raises 22023 for a status to which the operation does not apply.
Datum read_statuses(FunctionCallInfo fcinfo, int n, Operation operation,
                    bool (*by_default)(Operation, core::JobStatus));

// Returns the argument `max_jobs`. Raises 22023 if it is negative.
int32 check_max_jobs(int32 max_jobs);

}  // namespace jobq
