// Whether this database is a copy of another one. A copy leaves its jobs alone until jobq_adopt() is called. The answer
// is cached in each session until jobq.identity changes.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "identity/identity_policy.h"

namespace jobq {

core::Identity identity();

// Returns whether the database is a copy that neither jobq_adopt() nor the setting jobq.adopt has adopted.
bool leaves_jobs_alone();

// Raises 55000 if the database leaves its jobs alone. The check is cheap otherwise.
void require_own_jobs();

// Every function that workers call begins with this check.
inline void require_worker_may(FunctionCallInfo fcinfo) {
    require_writable(fcinfo);
    require_own_jobs();
}

// Return a detail and a hint for error messages: which database the jobs belong to, and how to adopt them.
const char *describe_origin();
const char *adoption_hint();

// Returns when the jobs became this database's own; 0 if they have been its own for a long time.
TimestampTz adopted_at();

// Makes the jobs this database's own. Returns false if they were already. Call it inside with_spi(), with the owner's
// rights.
bool adopt();

// Updates jobq.identity on each tick: writes an own row for an inherited database, marks the rows of a copy, or adopts
// the copy if jobq.adopt says so. Returns whether jobs were adopted. Same conditions as adopt().
bool settle_identity();

// Writes the row of this database when the extension is installed. Does nothing if a row exists. Same conditions as
// adopt().
void found_identity();

}  // namespace jobq
