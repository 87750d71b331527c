// Determines whether this database is a copy of another database. In a copy, jobs do not run until jobq_adopt() is
// called, because the original database might still run them. Each session caches the result until jobq.identity
// changes.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "identity/identity_policy.h"

namespace jobq {

// Returns whether the database is a copy that neither jobq_adopt() nor the setting jobq.adopt has adopted.
bool leaves_jobs_alone();

// Raises 55000 if leaves_jobs_alone() returns true. The check is cheap if it raises no error.
void require_own_jobs();

// Raises an error unless the database is writable and owns its jobs. Every function that workers call begins with this
// check.
inline void require_worker_may(FunctionCallInfo fcinfo) {
    require_writable(fcinfo);
    require_own_jobs();
}

// These functions return texts for error messages: a detail that names the database to which the jobs belong, and a
// hint that tells how to adopt the jobs.
const char *describe_origin();
const char *adoption_hint();

// Returns the time at which a database last became the owner of the jobs, which is the latest `adopted_at` in
// jobq.identity. Returns 0 if jobq.identity is empty.
TimestampTz adopted_at();

// Makes this database the owner of the jobs. Returns false if the database already owned the jobs. Must be called
// inside with_spi() and with the privileges of the extension's owner.
bool adopt();

// Updates jobq.identity on each tick: inserts a row for this database if the identity is Inherited, marks the rows as
// copied if the database is a copy, or adopts the jobs if jobq.adopt requests this. Returns whether jobs were adopted.
// Must be called in the same way as adopt().
bool settle_identity();

// Inserts a row for this database when the extension is installed. Does nothing if a row exists. Must be called in the
// same way as adopt().
void found_identity();

}  // namespace jobq
