// Values of the enum jobq.job_status, in and out. Who may use it: src/functions.
#pragma once

#include "core/job.h"
#include "pg/pg.h"

namespace jobq {

// The enum's value as a datum. Looks the type up by name: its OID differs from database to database.
Datum status_datum(core::JobStatus status);

// The status behind a datum of the enum.
core::JobStatus status_of(Datum value);

// The type's OID.
Oid status_type();

}  // namespace jobq
