// Finds out whether this database is a copy of another one. In a copy, jobs do not run until jobq_adopt() is called,
// because they still run in the original. Each session caches the result until jobq.identity changes.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "identity/identity_policy.h"

namespace jobq {

core::Identity identity();

// Returns whether the database is a copy that neither jobq_adopt() nor the setting jobq.adopt has adopted.
bool leaves_jobs_alone();

// Raises 55000 if leaves_jobs_alone() returns true. Otherwise, the check is cheap.
void require_own_jobs();

// Checks whether the database is writable and owns its jobs. Every function that workers call begins with this check.
inline void require_worker_may(FunctionCallInfo fcinfo) {
    require_writable(fcinfo);
    require_own_jobs();
}

// Return the detail and the hint of error messages: to which database the jobs belong, and how to adopt them.
const char *describe_origin();
const char *adoption_hint();

// Returns the time since which the jobs have belonged to this database, or 0 if that was long ago.
TimestampTz adopted_at();

// Makes this database the owner of the jobs. Returns false if it already was. Call it inside with_spi(), with the
// privileges of the extension's owner.
bool adopt();

// Updates jobq.identity on each tick: inserts a row of this database if the identity is Inherited, marks the rows if
// the database is a copy, or adopts the jobs if jobq.adopt requests it. Returns whether jobs were adopted. Call it in
// the same way as adopt().
bool settle_identity();

// Inserts the row of this database when the extension is installed. Does nothing if a row exists. Call it in the same
// way as adopt().
void found_identity();

}  // namespace jobq
