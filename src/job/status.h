// Values of the enum jobq.job_status, in and out.
#pragma once

#include "compat/pg.h"
#include "job/job_policy.h"

namespace jobq {

// The enum's value as a datum. Looks the type up by name: its OID differs from database to database.
Datum status_datum(core::JobStatus status);

// The status behind a datum of the enum.
core::JobStatus status_of(Datum value);

// The type's OID.
Oid status_type();

}  // namespace jobq
