// The main function of an executor, a process that runs handlers with the rights of their role. The worker of its
// database starts it; the postmaster looks up jobq_executor_main by name. The executor connects as that role and never
// has other rights. It waits until a commit sets the signal in its slot (shmem/executors.h). It exits when it has been
// idle for a long time, when another executor needs its process slot, when a command needs the database without
// sessions, and when it has run so many jobs or used so much memory that a new process is better.
#include "compat/pg.h"

#include "compat/latch.h"
#include "compat/settings.h"
#include "core/executor.h"
#include "handlers/handler_session.h"
#include "handlers/known_handlers.h"
#include "handlers/run_handler.h"
#include "processes/process.h"
#include "processes/supervise.h"
#include "shmem/executors.h"

extern "C" {
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/backend_status.h"
}

namespace jobq {

namespace {

// Maximum time that the executor sleeps before it checks for jobs, because some changes do not wake it.
constexpr core::Micros kLook = core::kSecond;
// Number of jobs between two checks of the memory that the process uses.
constexpr int kMeasured = 1000;

int jobs_done = 0;

// Returns whether a command needs the database without sessions.
bool must_make_room() {
    const DatabaseState *db = known_session_database();
    return db != nullptr && db->keep_out > 0;
}

// Returns whether the executor may continue with another job.
bool may_go_on() {
    return !ProcDiePending && !ConfigReloadPending && !own_executor_slot()->leave && !must_make_room() &&
           settings.enabled && settings.max_executors > 0;
}

// Returns whether the process has run so many jobs or uses so much memory that it must be replaced, because a session
// does not free everything that it has once needed.
bool is_worn_out(int jobs) {
    const int before = jobs_done;
    jobs_done += jobs;
    if (jobs_done >= core::kJobsOfExecutor) return true;
    if (before / kMeasured == jobs_done / kMeasured) return false;
    return static_cast<int64>(MemoryContextMemAllocated(TopMemoryContext, true)) > core::kBytesOfExecutor;
}

void run_executor() {
    TimestampTz idle_since = GetCurrentTimestamp();
    for (;;) {
        if (asked_to_stop()) return;
        if (reload_settings()) {
            forget_handlers();
            if (!database_served()) return;
        }
        if (!may_go_on()) return;
        const Served served = serve_handlers(may_go_on);
        if (served.leave || is_worn_out(served.jobs)) return;
        const TimestampTz now = GetCurrentTimestamp();
        if (served.jobs > 0) {
            idle_since = now;
            continue;
        }
        if (now - idle_since > core::kWarm || now < idle_since) return;
        pgstat_report_activity(STATE_IDLE, nullptr);
        wait_for_latch(kLook, WaitEvent::ExecutorMain);
    }
}

}  // namespace

extern "C" {

PGDLLEXPORT void jobq_executor_main(Datum index) {
    install_signal_handlers();
    ExecutorArguments arguments;
    memcpy(&arguments, MyBgworkerEntry->bgw_extra, sizeof(arguments));
    if (!enter_executor_slot(DatumGetInt32(index), arguments.generation)) proc_exit(0);
    // A command that needs the database without sessions first increases keep_out and then searches for executors. So
    // either it finds this executor, or this executor sees the new value of keep_out.
    const DatabaseState *db = find_database_state(arguments.database);
    if (db != nullptr && db->keep_out > 0) {
        executor_is_ready();
        proc_exit(0);
    }
    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnectionByOid(arguments.database, arguments.role, kConnectWithoutLogin);
    use_settings_of_executors();
    read_settings();
    executor_is_ready();
    run_executor();
    proc_exit(0);
}

}  // extern "C"

}  // namespace jobq
