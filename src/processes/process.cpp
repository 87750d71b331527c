// See process.h.
#include "compat/pg.h"

#include "compat/served.h"
#include "compat/settings.h"
#include "processes/process.h"

extern "C" {
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
}

#include <csignal>

namespace jobq {

namespace {

struct OwnSetting {
    const char *name;
    const char *value;
};

constexpr OwnSetting kOwnSettings[] = {
    {"role", "none"},
    {"search_path", "pg_catalog, pg_temp"},
    // Duties need no durable commits: if a crash loses their changes, the next round makes the changes again, and a
    // transaction that depends on the changes flushes them with its own commit. With this setting, their commits do not
    // wait for the disk or for a synchronous standby, so a standby that is down cannot delay duties or the shutdown.
    {"synchronous_commit", "off"},
    // Shorter than the default deadlock_timeout, so that the duty fails, and not the DDL, if the two block each other.
    {"lock_timeout", "500ms"},
    // Only the main loop of client sessions applies this setting, so each step enables a timeout itself.
    {"statement_timeout", "0"},
    {"idle_in_transaction_session_timeout", "0"},
    {"transaction_timeout", "0"},
    {"default_transaction_isolation", "read committed"},
    {"default_transaction_read_only", "off"},
    {"default_transaction_deferrable", "off"},
    {"session_replication_role", "origin"},
    {"row_security", "on"},
    {"max_parallel_workers_per_gather", "0"},
};

}  // namespace

bool register_process(const ProcessKind &kind, const char *name, Datum argument, const void *extra, Size bytes,
                      BackgroundWorkerHandle **handle) {
    BackgroundWorker worker = {};
    strlcpy(worker.bgw_name, name, sizeof(worker.bgw_name));
    strlcpy(worker.bgw_type, kind.type, sizeof(worker.bgw_type));
    worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
    worker.bgw_restart_time = BGW_NEVER_RESTART;
    strlcpy(worker.bgw_library_name, "jobq", sizeof(worker.bgw_library_name));
    strlcpy(worker.bgw_function_name, kind.main_function, sizeof(worker.bgw_function_name));
    worker.bgw_main_arg = argument;
    Assert(bytes <= sizeof(worker.bgw_extra));
    memcpy(worker.bgw_extra, extra, bytes);
    if (handle != nullptr) worker.bgw_notify_pid = MyProcPid;
    return RegisterDynamicBackgroundWorker(&worker, handle);
}

bool start_process(const ProcessKind &kind, const char *name, const DatabaseState *db, Oid database,
                   BackgroundWorkerHandle **handle) {
    const Datum index = Int32GetDatum(static_cast<int32>(db - shared_state()->databases));
    return register_process(kind, name, index, &database, sizeof(database), handle);
}

void begin_process(Datum database_index, bool (*attach)(DatabaseState *db, Oid database)) {
    install_signal_handlers();
    Oid database;
    memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(database));
    if (shared_state() == nullptr || !attach(&shared_state()->databases[DatumGetInt32(database_index)], database))
        proc_exit(0);

    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
    use_own_settings();
    read_settings();
}

void install_signal_handlers() {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    // die() ends every wait in the server, including a wait for a lock or a synchronous standby. A signal handler that
    // only sets a flag would not.
    pqsignal(SIGTERM, die);
}

void use_own_settings() {
    for (const OwnSetting &setting : kOwnSettings) {
        // Skips settings that this server does not have; transaction_timeout was added in PostgreSQL 17.
        if (GetConfigOption(setting.name, true, false) == nullptr) continue;
        SetConfigOption(setting.name, setting.value, PGC_SUSET, PGC_S_OVERRIDE);
    }
}

void read_settings() {
    ConfigReloadPending = false;
    ProcessConfigFile(PGC_SIGHUP);
}

bool asked_to_stop() {
    if (ProcDiePending) return true;
    QueryCancelPending = false;
    CHECK_FOR_INTERRUPTS();
    return false;
}

bool reload_settings() {
    if (!ConfigReloadPending) return false;
    read_settings();
    return true;
}

bool database_served() {
    SetCurrentStatementStartTimestamp();
    StartTransactionCommand();
    const bool served = why_unserved(MyDatabaseId) == Unserved::No;
    CommitTransactionCommand();
    return served;
}

}  // namespace jobq
