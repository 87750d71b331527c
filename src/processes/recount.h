// The process that counts the jobs of a large table for the counters in shared memory. A separate process does this
// because the count takes seconds, during which the worker of the database must continue its rounds. Only round.cpp,
// and database_commands.cpp and drop_extension.cpp, which stop the count, may call these functions.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Returns whether a count may be started: no count is running, and the last one was not started a moment ago.
bool may_start_recount(const DatabaseState *db, TimestampTz now);
// Starts a count for this worker's database. If max_worker_processes leaves no room, a later round tries again.
void start_recount(DatabaseState *db, TimestampTz now);
// Stops the count, because a session wants to drop the extension or needs the database without other sessions. The
// caller must hold the lock of the database states.
void stop_recount(const DatabaseState *db);

}  // namespace jobq
