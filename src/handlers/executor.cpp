// The main function of an executor, a process that runs the handlers of one role with the privileges of this role. The
// background worker of the database starts the executor; the postmaster looks up jobq_executor_main by name. The
// executor connects as this role and never has any other privileges. It waits until a commit sets the signal in its
// slot (handlers/executor_slots.h). It exits when it has been idle for a long time, when its process slot is needed for
// another executor, when a command such as DROP DATABASE requires that no session be connected to the database, or when
// it has run so many jobs or used so much memory that a new process must replace it.
#include "compat/pg.h"

#include "compat/background_process.h"
#include "compat/latch.h"
#include "compat/settings.h"
#include "handlers/executor_policy.h"
#include "handlers/executor_slots.h"
#include "handlers/handler_session.h"
#include "handlers/known_handlers.h"
#include "handlers/run_handler.h"
#include "handlers/supervise.h"

extern "C" {
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/backend_status.h"
}

namespace jobq {

namespace {

// Maximum time that the executor sleeps before it checks for jobs. The time is limited because some changes do not wake
// the executor.
constexpr core::Micros kLook = core::kSecond;
// Number of jobs that the process runs between two checks of its memory usage.
constexpr int kMeasured = 1000;

int jobs_done = 0;

// Returns whether the executor may continue with another job.
bool may_go_on() {
    return !ProcDiePending && !ConfigReloadPending && !own_executor_slot()->leave &&
           !must_make_room(known_session_database()) && settings.enabled && settings.max_executors > 0;
}

// Returns whether the process has run so many jobs or uses so much memory that it must be replaced. A session does not
// free all the memory that it has used.
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
    // A command such as DROP DATABASE, which fails while a session is connected to the database, first increases
    // keep_out and then searches for executors. So either the command finds this executor, or this executor sees the
    // new value of keep_out.
    if (must_make_room(find_database_state(arguments.database))) {
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
