// What statements say of leases, of a job `j`, in one place: what core and suspects.h say of rows in C++.
#pragma once

#include "core/job.h"

// Whatever came into a row behind the triggers, no sum or difference may overflow: one row would stop the statement for
// all.
#define BOUNDED_TIME(time) \
    "least(greatest(" time ", timestamptz '0001-01-01 00:00+00'), timestamptz '6000-01-01 00:00+00')"
#define LEASE_TIMEOUT \
    "least(greatest(coalesce(j._lease_timeout, " USUAL_LEASE "), interval '10 milliseconds'), interval '365 days')"

// It has lost a worker before (is_suspect()).
#define IS_SUSPECT "(j.lost_attempts > 0 OR j._company_lease IS NOT NULL)"
// The same of one that runs: one that was marked under its present lease need not have been one at its claim.
#define RUNS_AS_SUSPECT "(j.lost_attempts > 0 OR j._company_lease <> j.lease)"
