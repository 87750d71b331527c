// Whether this database is a copy of another, which leaves its jobs alone until somebody calls jobq_adopt(). Kept in
// each session until jobq.identity changes.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "identity/identity_policy.h"

namespace jobq {

core::Identity identity();

// A copy that nobody has adopted, nor the setting jobq.adopt: its jobs are left alone.
bool leaves_jobs_alone();

// 55000 then. Costs one test where the database is its own.
void require_own_jobs();

// What workers call begins with it.
inline void require_worker_may(FunctionCallInfo fcinfo) {
    require_writable(fcinfo);
    require_own_jobs();
}

// Of which database the jobs of a copy are, and what to do: a detail and a hint, for people.
const char *describe_origin();
const char *adoption_hint();

// When the jobs became this database's own; 0: long ago.
TimestampTz adopted_at();

// Inside with_spi(), with the owner's rights. Makes the jobs this database's own. False: they were.
bool adopt();

// The same. What a tick does about it: writes down what it has inherited, or that it is a copy, or adopts it if the
// setting says so. Returns whether it has adopted jobs.
bool settle_identity();

// The same, for the install script: the jobs that will come are of here. Nothing where something is written down.
void found_identity();

}  // namespace jobq
