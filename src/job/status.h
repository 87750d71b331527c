// Values of the enum jobq.job_status, in and out. Who may use it: src/functions.
#pragma once

#include "compat/pg.h"
#include "job/job_policy.h"
#include "operate/operate.h"

namespace jobq {

// The enum's value as a datum. Looks the type up by name: its OID differs from database to database.
Datum status_datum(core::JobStatus status);

// The status behind a datum of the enum.
core::JobStatus status_of(Datum value);

// The type's OID.
Oid status_type();

// The argument `statuses`, number n: which of the core::kJobStatusCount statuses it names. When it is absent,
// those that by_default(operation, status) says. 22023 for one that the operation does not apply to.
void read_statuses(FunctionCallInfo fcinfo, int n, Operation operation, bool (*by_default)(Operation, core::JobStatus),
                   bool *wanted);

}  // namespace jobq
