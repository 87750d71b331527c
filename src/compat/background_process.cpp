// See background_process.h.
#include "compat/pg.h"

#include "compat/background_process.h"
#include "compat/served.h"

extern "C" {
#include "postmaster/interrupt.h"
#include "tcop/tcopprot.h"
}

#include <csignal>

namespace jobq {

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

void install_signal_handlers() {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    // die() ends every wait in the server, including a wait for a lock or a synchronous standby. A signal handler that
    // only sets a flag would not end such a wait.
    pqsignal(SIGTERM, die);
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
