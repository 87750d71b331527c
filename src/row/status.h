// Converts values of the enum jobq.job_status.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

// Returns the enum's value as a datum. Looks the type up by name, because its OID differs between databases.
Datum status_datum(core::JobStatus status);

// Returns the status that a datum of the enum represents.
core::JobStatus status_of(Datum value);

// Returns the OID of the enum type.
Oid status_type();

// Returns the names of the statuses for which wanted(status) is true, as text[].
template <typename Wanted>
Datum names_of_statuses(Wanted wanted) {
    Datum names[core::kJobStatusCount];
    int count = 0;
    for (const core::StatusRow &row : core::kJobStatuses)
        if (wanted(row.status)) names[count++] = CStringGetTextDatum(row.label);
    return array_of(names, count, TEXTOID);
}

}  // namespace jobq
