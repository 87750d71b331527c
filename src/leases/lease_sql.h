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

// The trial of a running suspect: until its attempt has lasted for one heartbeat timeout, it might kill its current
// worker, too. An executor sends no heartbeats, but while its lease is valid, its process is alive. So a job of an
// executor is on trial for the usual timeout, and the process gives a sign of life at any time.
#define BY_EXECUTOR "j._lease_timeout >= " ENDLESS_LEASE
#define TRIAL_END \
    "(" BOUNDED_TIME("j.started_at") " + CASE WHEN " BY_EXECUTOR " THEN " USUAL_LEASE " ELSE " LEASE_TIMEOUT " END)"
#define IS_ON_TRIAL \
    "(" TRIAL_END " > CASE WHEN " BY_EXECUTOR " THEN pg_catalog.clock_timestamp() ELSE j.last_heartbeat END)"
