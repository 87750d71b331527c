// Starts and stops the process that counts the jobs of a large table for the counters in shared memory. This is a
// separate process because the count takes seconds, during which the worker of the database must continue its rounds.
// round.cpp starts the count. database_commands.cpp and drop_extension.cpp stop it. No other file may call these
// functions.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Returns whether a count can be started. This is the case if no count is running and some time has passed since the
// last start of a count.
bool may_start_recount(const DatabaseState *db, TimestampTz now);
// Starts a count for this worker's database. Does nothing if max_worker_processes leaves no room; a later round then
// tries again.
void start_recount(DatabaseState *db, TimestampTz now);
// Stops the count if one is in progress. A session calls this function before it drops the extension, or before it runs
// a command that fails while other sessions are connected to the database. The caller must hold the lock of the
// database states.
void stop_recount(const DatabaseState *db);

}  // namespace jobq
