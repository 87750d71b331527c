// See recount.h. The postmaster looks up jobq_recount_main by name.
#include "compat/pg.h"

#include "processes/process.h"
#include "processes/recount.h"
#include "processes/step.h"
#include "shmem/database_state.h"

extern "C" {
#include "pgstat.h"
#include "storage/ipc.h"
}

#include <csignal>

namespace jobq {

namespace {

constexpr ProcessKind kRecount = {"jobq recount", "jobq_recount_main"};
constexpr core::Micros kRestart = 5 * core::kSecond;

DatabaseState *own = nullptr;

// Cleans up the database state when the process exits. Runs after the process has left the list of sessions, like
// detach() in worker.cpp.
void detach(int, Datum) {
    if (own == nullptr) return;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    own->recount_pid = 0;
    LWLockRelease(database_states_lock());
}

bool attach(DatabaseState *db, Oid database) {
    on_shmem_exit(detach, Datum(0));
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    const bool welcome = pg_atomic_read_u32(&db->database) == database && db->recount_pid == 0 && db->keep_out == 0;
    if (welcome) {
        db->recount_pid = MyProcPid;
        own = db;
    }
    LWLockRelease(database_states_lock());
    return welcome;
}

// Counts the rows of jobq.jobs in one transaction, even if the table is large. Errors are recorded like the errors of a
// round.
void run_recount() {
    Step step;
    prepare_step(&step, static_cast<int>(Duty::Reconcile), true);
    run_step(own, &step, CurrentMemoryContext);
    pgstat_report_stat(true);
}

}  // namespace

bool may_start_recount(const DatabaseState *db, TimestampTz now) {
    return db->recount_pid == 0 && bounded(db->recount_started + kRestart, now, kRestart) <= now;
}

void start_recount(DatabaseState *db, TimestampTz now) {
    char name[BGW_MAXLEN];
    const char *database = strstr(MyBgworkerEntry->bgw_name, " for ");
    snprintf(name, sizeof(name), "%s%s", kRecount.type, database != nullptr ? database : "");
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->recount_started = now;
    LWLockRelease(database_states_lock());
    if (!start_process(kRecount, name, db, MyDatabaseId, nullptr))
        ereport(DEBUG1, (errmsg_internal("%s: could not start because all background worker slots are in use", name)));
}

void stop_recount(const DatabaseState *db) {
    // The pid still belongs to the counting process, because that process cannot exit until the caller releases the
    // lock.
    if (db->recount_pid != 0) kill(db->recount_pid, SIGTERM);
}

extern "C" {

PGDLLEXPORT void jobq_recount_main(Datum database_index) {
    begin_process(database_index, attach);
    if (!asked_to_stop()) run_recount();
    proc_exit(0);
}

}  // extern "C"

}  // namespace jobq
