// The process that counts a large table for the counters: a pass of seconds, during which the worker of the database
// must go on with its rounds. Who may call it: round.cpp, and database_commands.cpp and
// drop_extension.cpp, which end it.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Whether one may be started: none runs, and the last one was not started just now.
bool may_start_recount(const DatabaseState *db, TimestampTz now);
// Starts it for this worker's database. When max_worker_processes leaves no room, the next round tries again after a
// while.
void start_recount(DatabaseState *db, TimestampTz now);
// Somebody wants the database, or its extension, for himself. Lock of the database states held.
void stop_recount(const DatabaseState *db);

}  // namespace jobq
