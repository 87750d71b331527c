// Values of the enum jobq.job_status, in and out.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "job/job_policy.h"

namespace jobq {

// The enum's value as a datum. Looks the type up by name: its OID differs from database to database.
Datum status_datum(core::JobStatus status);

// The status behind a datum of the enum.
core::JobStatus status_of(Datum value);

// The type's OID.
Oid status_type();

// The names of the statuses of which wanted(status) is true, text[].
template <typename Wanted>
Datum names_of_statuses(Wanted wanted) {
    Datum names[core::kJobStatusCount];
    int count = 0;
    for (const core::StatusRow &row : core::kJobStatuses)
        if (wanted(row.status)) names[count++] = CStringGetTextDatum(row.label);
    return array_of(names, count, TEXTOID);
}

}  // namespace jobq
