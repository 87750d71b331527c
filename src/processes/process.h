// Starts and initializes the processes that work with superuser privileges: the launcher, the workers, and the
// processes that count the jobs of a large table. Only these processes may call these functions.
#pragma once

#include "compat/background_process.h"
#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Registers a background worker for the database of the given state. `name` distinguishes the processes. Returns false
// if max_worker_processes leaves no room. If `handle` is not nullptr, the caller is notified when the process starts
// and when it exits.
bool start_process(const ProcessKind &kind, const char *name, const DatabaseState *db, Oid database,
                   BackgroundWorkerHandle **handle);

// Initializes a process that start_process() has registered. First calls attach(db, database), which records the
// process in the state of its database before other sessions can see the process in that database. Then connects to the
// database and applies the settings. Ends the process if attach() returns false.
void begin_process(Datum database_index, bool (*attach)(DatabaseState *db, Oid database));

// Overrides settings that might have been changed in the configuration files, for the database, or for the role. Call
// it after connecting.
void use_own_settings();

}  // namespace jobq
