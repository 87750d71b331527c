// SQL expressions for the lease of a job `j`. They compute the same values in statements as core and suspects.h do in
// C++.
#pragma once

#include "core/job.h"

// Bounds a value so that sums and differences cannot overflow, because a row that bypassed the triggers may contain any
// value, and one error would stop the statement for all rows.
#define BOUNDED_TIME(time) \
    "least(greatest(" time ", timestamptz '0001-01-01 00:00+00'), timestamptz '6000-01-01 00:00+00')"
#define LEASE_TIMEOUT \
    "least(greatest(coalesce(j._lease_timeout, " USUAL_LEASE "), interval '10 milliseconds'), interval '365 days')"

// The job has lost a worker before (is_suspect()).
#define IS_SUSPECT "(j.lost_attempts > 0 OR j._company_lease IS NOT NULL)"
// The running job had lost a worker before its current claim. Ignores jobs._company_lease if it was set under the
// current lease.
#define RUNS_AS_SUSPECT "(j.lost_attempts > 0 OR j._company_lease <> j.lease)"
