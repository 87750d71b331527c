// Common parts of the launcher and the workers as processes: start, signals, settings, and waiting. Only the processes
// in this directory may call this, and supervise.cpp, which starts some.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "shmem/database_state.h"

namespace jobq {

// The name of a kind of process that works in one database, and the library function that it runs.
struct ProcessKind {
    const char *type;
    const char *main_function;
};

// Asks the postmaster for a process, which finds `bytes` of `extra` in its MyBgworkerEntry->bgw_extra. Returns false if
// max_worker_processes leaves no room.
bool register_process(const ProcessKind &kind, const char *name, Datum argument, const void *extra, Size bytes,
                      BackgroundWorkerHandle **handle);

// Asks the postmaster for a process in the state's database; `name` distinguishes the processes. Returns false if
// max_worker_processes leaves no room. With a handle, the caller is notified of the start and the end.
bool start_process(const ProcessKind &kind, const char *name, const DatabaseState *db, Oid database,
                   BackgroundWorkerHandle **handle);

// Begins such a process: calls attach(db, database), which enters the process into its state before other sessions can
// see it in the database, then connects and applies the settings. Ends the process if attach() returns false.
void begin_process(Datum database_index, bool (*attach)(DatabaseState *db, Oid database));

// Installs the handlers of SIGHUP and SIGTERM. Must be called first, while signals are still blocked.
void install_signal_handlers();

// Makes the process independent of settings of the cluster, a database, or a role. Called after connecting.
void use_own_settings();

// Reads the configuration files. Called at the start: the process inherits the postmaster's settings as they were at
// the fork, and a SIGHUP that comes before install_signal_handlers() is lost, since the server ignores it until then.
void read_settings();

// Returns whether the process must exit, at a moment when it can do so without an error in the log.
bool asked_to_stop();

// Reads the configuration files again if the server was told to reload them. Returns whether it did.
bool reload_settings();

// Returns whether jobq.databases includes the database of this process. Runs in its own transaction.
bool database_served();

}  // namespace jobq
