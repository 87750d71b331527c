// SQL expressions for the lease of a job `j`. In SQL statements, they compute the values that src/core and suspects.h
// compute in C++.
#pragma once

#include "core/job.h"

// Bounds a value so that sums and differences cannot overflow, because a row that bypassed the triggers may contain any
// value, and a single error would stop the statement for all rows.
#define BOUNDED_TIME(time) \
    "least(greatest(" time ", timestamptz '0001-01-01 00:00+00'), timestamptz '6000-01-01 00:00+00')"
#define LEASE_TIMEOUT \
    "least(greatest(coalesce(j._lease_timeout, " USUAL_LEASE "), interval '10 milliseconds'), interval '365 days')"

// Whether the job has lost a worker before (is_suspect()).
#define IS_SUSPECT "(j.lost_attempts > 0 OR j._company_lease IS NOT NULL)"
// Whether the running job had lost a worker before its current claim. A value of jobs._company_lease that was set under
// the current lease does not count.
#define RUNS_AS_SUSPECT "(j.lost_attempts > 0 OR j._company_lease <> j.lease)"
