// What the launcher and the workers have in common as processes: how they are started and begin, signals, settings of
// their own, waiting. Who may call it: the processes of this room, and supervise.cpp, which starts
// some.
#pragma once

#include "compat/pg.h"
#include "job/job_policy.h"
#include "shmem/database_state.h"

namespace jobq {

// What a process that works in one database is called, and the function of the library that it runs.
struct ProcessKind {
    const char *type;
    const char *main_function;
};

// Asks the postmaster for a process, which finds `bytes` of `extra` in its MyBgworkerEntry->bgw_extra. False when
// max_worker_processes leaves no room.
bool register_process(const ProcessKind &kind, const char *name, Datum argument, const void *extra, Size bytes,
                      BackgroundWorkerHandle **handle);

// Asks the postmaster for a process of the state's database; `name` tells them apart. False when max_worker_processes
// leaves no room. With a handle the caller is told of the start and the end.
bool start_process(const ProcessKind &kind, const char *name, const DatabaseState *db, Oid database,
                   BackgroundWorkerHandle **handle);

// How such a process begins: with attach(db, database), where it enters its state before it can be seen in the
// database, then connected, with settings of its own. It ends here when attach returns false.
void begin_process(Datum database_index, bool (*attach)(DatabaseState *db, Oid database));

// Handlers of SIGHUP and SIGTERM. Called first, while signals are still blocked.
void install_signal_handlers();

// Makes the process independent of what the cluster, a database or a role sets. Called once connected.
void use_own_settings();

// Reads the configuration files. Called at the start: the process inherits the postmaster's settings as they were at
// the fork, and a SIGHUP that comes before install_signal_handlers() is lost, since the server ignores it until then.
void read_settings();

// True when the process shall end, seen at a moment when it can end without an error in the log.
bool asked_to_stop();

// Reads the configuration files again if the server was told to. True when it did.
bool reload_settings();

// Whether jobq.databases names the database of this process. In a transaction of its own.
bool database_served();

}  // namespace jobq
