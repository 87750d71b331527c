// Registers background processes (the server's background workers), and handles their signals and settings.
#pragma once

#include "compat/pg.h"

namespace jobq {

// A kind of process that works in one database: its name, and the library function that it runs.
struct ProcessKind {
    const char *type;
    const char *main_function;
};

// Registers a process with the postmaster. Copies `bytes` bytes of `extra` to bgw_extra of the process. Returns false
// if max_worker_processes is exhausted. If `handle` is not nullptr, the caller is notified when the process starts and
// ends.
bool register_process(const ProcessKind &kind, const char *name, Datum argument, const void *extra, Size bytes,
                      BackgroundWorkerHandle **handle);

// Installs the signal handlers for SIGHUP and SIGTERM. A process must call this function first, while signals are still
// blocked.
void install_signal_handlers();

// Reads the configuration files. Must be called when the process starts, because the process inherits the settings that
// the postmaster had when it forked the process, and a SIGHUP that arrives before the call to install_signal_handlers()
// is ignored.
void read_settings();

// Returns whether the process was asked to terminate. If so, the caller must exit at this point, so that no error is
// written to the server log.
bool asked_to_stop();

// Reads the configuration files again if the process has received SIGHUP. Returns whether it has read them.
bool reload_settings();

// Returns whether jobq's background processes are allowed to work in the database of this process (compat/served.h).
// The check runs in its own transaction.
bool database_served();

}  // namespace jobq
