// Functions for start, signals, settings, and waiting that the launcher, the workers, and the executors share. Only the
// processes in this directory, and supervise.cpp, which starts executors, may call these functions.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "shmem/database_state.h"

namespace jobq {

// A kind of process that works in one database: its name, and the library function that it runs.
struct ProcessKind {
    const char *type;
    const char *main_function;
};

// Registers a dynamic background worker with the postmaster. Copies `bytes` bytes of `extra` to its bgw_extra. Returns
// false if max_worker_processes leaves no room.
bool register_process(const ProcessKind &kind, const char *name, Datum argument, const void *extra, Size bytes,
                      BackgroundWorkerHandle **handle);

// Registers a background worker for the database of the given state; `name` distinguishes the processes. Returns false
// if max_worker_processes leaves no room. If `handle` is given, the caller is notified when the process starts and
// ends.
bool start_process(const ProcessKind &kind, const char *name, const DatabaseState *db, Oid database,
                   BackgroundWorkerHandle **handle);

// Initializes such a process: calls attach(db, database), which records the process in the state of its database before
// other sessions can see it in that database, then connects and applies the settings. Ends the process if attach()
// returns false.
void begin_process(Datum database_index, bool (*attach)(DatabaseState *db, Oid database));

// Installs the signal handlers for SIGHUP and SIGTERM. Must be called first, while signals are still blocked.
void install_signal_handlers();

// Overrides settings that the configuration files, the database, or the role may have changed. Call it after
// connecting.
void use_own_settings();

// Reads the configuration files. Must be called when the process starts, because the process inherits the settings that
// the postmaster had at the fork, and a SIGHUP that arrives before install_signal_handlers() is ignored.
void read_settings();

// Returns whether the process was asked to terminate. The caller must be able to exit at this point without an error in
// the log.
bool asked_to_stop();

// Reads the configuration files again if the process has received SIGHUP. Returns whether it has read them.
bool reload_settings();

// Returns whether jobq.databases includes the database of this process. Runs in its own transaction.
bool database_served();

}  // namespace jobq
