// The process that counts a large table for the counters. The count takes seconds, during which the worker of the
// database must continue its rounds. Only round.cpp may call this, and database_commands.cpp and drop_extension.cpp,
// which stop the count.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Returns whether a count may be started: none runs, and the last one was not started just now.
bool may_start_recount(const DatabaseState *db, TimestampTz now);
// Starts a count for this worker's database. If max_worker_processes leaves no room, a later round tries again.
void start_recount(DatabaseState *db, TimestampTz now);
// Stops the count, because a session needs the database or its extension for itself. The caller must hold the lock of
// the database states.
void stop_recount(const DatabaseState *db);

}  // namespace jobq
