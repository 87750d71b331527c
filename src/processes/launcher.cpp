// See launcher.h. core::plan_launch() decides which worker to start. This file collects the facts for that decision and
// starts the worker. Whenever its latch is set, the launcher makes a new plan, but it does not read pg_database each
// time, because the start and exit of every worker also set the latch. The launcher has no state that must survive a
// restart. After an unexpected error, the process exits, and the postmaster restarts it after a second.
#include "compat/pg.h"

#include "compat/latch.h"
#include "compat/settings.h"
#include "core/launch.h"
#include "edges/awaited_jobs.h"
#include "groups/unblocked_list.h"
#include "handlers/executor_slots.h"
#include "leases/young_leases.h"
#include "metrics/counters.h"
#include "metrics/totals.h"
#include "processes/databases.h"
#include "processes/launcher.h"
#include "processes/process.h"
#include "shmem/database_state.h"
#include "shmem/wall_clock.h"

extern "C" {
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/wait_event.h"
}

namespace jobq {

namespace {

constexpr ProcessKind kWorker = {"jobq worker", "jobq_worker_main"};
// Lead time: the launcher starts a worker this long before the worker's next round is due, because the worker needs a
// few milliseconds to connect.
constexpr core::Micros kLead = 30000;
// Minimum time between two starts of workers in the same database, so that a worker that exits immediately does not
// keep the launcher busy.
constexpr core::Micros kMinRestart = 30000;
// Maximum and minimum sleep of the launcher. The maximum limits how long it takes to detect an abrupt change of the
// system clock; the minimum limits how often the launcher runs if a plan is wrong.
constexpr core::Micros kMaxSleep = 5 * core::kSecond;
constexpr core::Micros kMinSleep = 5000;
// Interval at which the launcher reads pg_database if no change is reported.
constexpr core::Micros kScanInterval = core::kMinute;
// Maximum backoff after the launcher has found that max_worker_processes is exhausted. It is short because other
// extensions release process slots without notification.
constexpr int kMaxRefusalBackoff = 3;
// A successful start of a worker shows that the shortage of process slots is over only if no start has failed for this
// time.
constexpr core::Micros kCalm = core::kMinute;

struct Launcher {
    BackgroundWorkerHandle *handles[kMaxDatabases];  // handles of the started workers, by database state
    TimestampTz last_scan;
    int refusals;  // number of consecutive refusals by the postmaster
    TimestampTz refused_till;
    TimestampTz last_refusal;
    TimestampTz full_till;  // until then, databases without a state are skipped, because no state is free
    bool warned_of_full_table;
};
Launcher self;

// The databases of the plan, each with the index of its state, or -1 if it has no state yet.
struct Plan {
    core::DatabaseFacts facts[kMaxDatabases + 1];
    int states[kMaxDatabases + 1];
    int count;
    int running;
    bool unknown_database;  // work is due in a database that the last read of pg_database did not find
};

int index_of(const DatabaseState *db) { return static_cast<int>(db - shared_state()->databases); }

void leave_shared_memory(int, Datum) {
    SharedState *state = shared_state();
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    if (state->launcher_pid == MyProcPid) {
        state->launcher = nullptr;
        state->launcher_pid = 0;
    }
    LWLockRelease(database_states_lock());
}

void enter_shared_memory() {
    SharedState *state = shared_state();
    on_shmem_exit(leave_shared_memory, Datum(0));
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    state->launcher_pid = MyProcPid;
    state->launcher = MyProc;
    // Forgets workers that the previous launcher has registered and that have not started yet. If such a worker starts
    // later, it still attaches to the state of its database.
    for (DatabaseState &db : state->databases) db.starting = false;
    LWLockRelease(database_states_lock());
    // Records when the server began to accept writes, because it might have been a standby until now.
    writing_since();
}

// Releases the handles of workers that have exited.
void collect_workers(TimestampTz now) {
    for (int i = 0; i < kMaxDatabases; i++) {
        pid_t pid;
        if (self.handles[i] == nullptr || GetBackgroundWorkerPid(self.handles[i], &pid) != BGWH_STOPPED) continue;
        pfree(self.handles[i]);
        self.handles[i] = nullptr;
        self.refused_till = 0;
        DatabaseState *db = &shared_state()->databases[i];
        LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
        if (db->starting) {
            // The worker has exited without attaching, because the postmaster could not fork it.
            db->starting = false;
            db->failures++;
            db->not_before = now + core::launch_backoff(db->failures);
        }
        LWLockRelease(database_states_lock());
    }
}

bool is_occupied(const DatabaseState &db) {
    return db.pid != 0 || db.starting || self.handles[index_of(&db)] != nullptr;
}

// Returns whether a process or a command still uses the state of the database.
bool is_held(const DatabaseState &db) { return is_occupied(db) || db.recount_pid != 0 || db.keep_out > 0; }

// Removes the data of a database from other parts of the shared memory. Called when the state of the database is
// released. The caller must hold the lock of the database states.
void forget_what_is_of(DatabaseState *db, Oid database) {
    drop_counters(database);
    forget_awaited_jobs(database);
    forget_executors_of(database);
    forget_leases_of(database);
    reset_unblocked(db);
}

// Records that a state has become free, so that a message is logged if the table of states becomes full again later.
void note_free_state() {
    pg_atomic_write_u32(&shared_state()->table_full, 0);
    self.warned_of_full_table = false;
}

// Releases the states of databases that do not have the extension or are being dropped.
void tidy_states() {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    for (DatabaseState &db : shared_state()->databases) {
        const Oid oid = pg_atomic_read_u32(&db.database);
        if (oid == InvalidOid || is_held(db)) continue;
        Database *database = find_database(oid);
        if (database == nullptr) continue;
        if (db.extension != Presence::Unknown) database->visited = true;
        const bool unused = db.extension != Presence::Present && database->visited;
        if (!unused || due_of(&db) != kNothingDue || !release_database_state(&db)) continue;
        forget_what_is_of(&db, oid);
        note_free_state();
    }
    LWLockRelease(database_states_lock());
}

// Frees the states of dropped databases. A database counts as dropped if it had a state before pg_database was read,
// but was not found in pg_database.
void free_states_of_dropped(const Oid *had_state) {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    for (int i = 0; i < kMaxDatabases; i++) {
        DatabaseState &db = shared_state()->databases[i];
        const Oid oid = pg_atomic_read_u32(&db.database);
        if (oid == InvalidOid || oid != had_state[i] || find_database(oid) != nullptr) continue;
        if (is_held(db)) continue;
        forget_what_is_of(&db, oid);
        pg_atomic_write_u64(&db.next_due, static_cast<uint64>(kNothingDue));
        pg_atomic_write_u32(&db.database, InvalidOid);
        note_free_state();
    }
    LWLockRelease(database_states_lock());
}

// Removes the totals of dropped databases. A database counts as dropped if it had totals before pg_database was read,
// but was not found in pg_database.
void forget_totals_of_dropped(const Oid *had_totals, int count) {
    for (int i = 0; i < count; i++)
        if (find_database(had_totals[i]) == nullptr) drop_totals(had_totals[i]);
}

// Marks the states of databases that jobq.databases does not include, so that sessions in these databases know that no
// worker runs there.
void note_served() {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    for (DatabaseState &db : shared_state()->databases) {
        const Database *database = find_database(pg_atomic_read_u32(&db.database));
        if (database != nullptr) db.unserved = !database->served;
    }
    LWLockRelease(database_states_lock());
}

void scan_databases(TimestampTz now) {
    pg_atomic_write_u32(&shared_state()->databases_changed, 0);
    Oid had_state[kMaxDatabases], had_totals[kMaxDatabases];
    const int totals = databases_with_totals(had_totals);
    for (int i = 0; i < kMaxDatabases; i++) had_state[i] = pg_atomic_read_u32(&shared_state()->databases[i].database);
    pg_memory_barrier();
    read_databases();
    free_states_of_dropped(had_state);
    forget_totals_of_dropped(had_totals, totals);
    note_served();
    self.last_scan = now;
}

// Adds the database of this state to the plan, with the time at which its worker is due, or kNever if no worker may be
// started.
void add_database_state(Plan *plan, DatabaseState *db, const Database *database, TimestampTz now) {
    const int i = index_of(db);
    core::DatabaseFacts &facts = plan->facts[plan->count];
    facts.database = database->oid;
    facts.next_due = due_of(db);
    if (db->extension == Presence::Unknown && !database->visited) facts.next_due = Min(facts.next_due, 0);
    // Advances not_before to the time of the last round if it is earlier. plan_launch() serves the databases in the
    // order of not_before, so the databases take turns.
    const TimestampTz last_round = Min(db->last_round, now);
    const TimestampTz restart = bounded(db->started_at + kMinRestart, now, kMinRestart);
    facts.not_before = Max(bounded(db->not_before, now, core::kLongestLaunchBackoff), Max(last_round, restart));
    if (db->keep_out > 0) facts.not_before = core::kNever;
    facts.running = is_occupied(*db);
    plan->states[plan->count++] = i;
}

void make_plan(Plan *plan, TimestampTz now) {
    plan->count = 0;
    plan->running = 0;
    plan->unknown_database = false;
    LWLockAcquire(database_states_lock(), LW_SHARED);
    for (DatabaseState &db : shared_state()->databases) {
        const Oid oid = pg_atomic_read_u32(&db.database);
        if (oid == InvalidOid) continue;
        if (is_occupied(db)) plan->running++;
        const Database *database = find_database(oid);
        if (database == nullptr) {
            if (due_of(&db) != kNothingDue) plan->unknown_database = true;
        } else if (database->served) {
            add_database_state(plan, &db, database, now);
        }
    }
    // One unvisited database per plan is enough, because the next plan includes the next unvisited database.
    const Database *unvisited = now < bounded(self.full_till, now, kScanInterval) ? nullptr : unvisited_database();
    if (unvisited != nullptr) {
        plan->facts[plan->count] = {unvisited->oid, 0, 0, false};
        plan->states[plan->count++] = -1;
    }
    LWLockRelease(database_states_lock());
}

void warn_of_full_table(TimestampTz now) {
    self.full_till = now + kScanInterval;
    if (self.warned_of_full_table) return;
    self.warned_of_full_table = true;
    ereport(WARNING, (errmsg("jobq: more than %d databases use jobq, so some databases have no background worker",
                             kMaxDatabases),
                      errhint("Call jobq_tick() every few seconds in each database that has no background worker.")));
}

// Records that max_worker_processes leaves no room for another worker.
void note_refusal(TimestampTz now) {
    SharedState *state = shared_state();
    self.refusals = Min(self.refusals + 1, kMaxRefusalBackoff);
    self.refused_till = now + core::launch_backoff(self.refusals);
    self.last_refusal = now;
    if (state->out_of_worker_slots) return;
    state->out_of_worker_slots = true;
    ereport(WARNING,
            (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
             errmsg("jobq: could not start a background worker because all background worker slots are in use"),
             errhint("Increase \"max_worker_processes\", or decrease \"jobq.max_workers\".")));
}

// Records that a worker was started. One successful start does not end the shortage of process slots, because
// during a shortage, a worker can be started whenever another process exits.
void note_room(TimestampTz now) {
    SharedState *state = shared_state();
    if (!state->out_of_worker_slots || now < bounded(self.last_refusal + kCalm, now, kCalm)) return;
    state->out_of_worker_slots = false;
    ereport(LOG, (errmsg("jobq: background workers can be started again")));
}

bool register_worker(const Database *database, const DatabaseState *db, BackgroundWorkerHandle **handle) {
    char name[BGW_MAXLEN];
    snprintf(name, sizeof(name), "%s for %s", kWorker.type, database->name);
    return start_process(kWorker, name, db, database->oid, handle);
}

void start_worker(Oid oid, TimestampTz now) {
    const Database *database = find_database(oid);
    DatabaseState *db = obtain_database_state(oid);
    if (db == nullptr) {
        warn_of_full_table(now);
        return;
    }
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    // Checks the state again, because after the plan was made, a command might have requested that workers be kept out
    // of the database.
    const bool free = db->keep_out == 0 && db->pid == 0 && !db->starting;
    if (free) {
        db->starting = true;
        db->started_at = now;
        db->leave = false;
    }
    LWLockRelease(database_states_lock());
    if (!free) return;

    const int i = index_of(db);
    // Allocates the handle in TopMemoryContext, because the launcher keeps it longer than any transaction.
    MemoryContextSwitchTo(TopMemoryContext);
    if (register_worker(database, db, &self.handles[i])) {
        self.refusals = 0;
        return;
    }
    self.handles[i] = nullptr;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->starting = false;
    LWLockRelease(database_states_lock());
    note_refusal(now);
}

// Returns whether to ask worker `a` rather than worker `b` to exit. An idle worker is preferred to a busy worker. Of
// two idle workers, the worker whose next round is due later is preferred. Of two busy workers, the worker that was
// started earlier is preferred.
bool rather(DatabaseState *a, DatabaseState *b) {
    if (a->in_round != b->in_round) return b->in_round;
    return a->in_round ? a->started_at < b->started_at : due_of(a) > due_of(b);
}

// Asks one worker to exit. Does nothing if an idle worker has already been asked, or if a busy worker has already been
// asked and there is no idle worker to ask. Also considers workers that are still starting, because the launcher is not
// woken up when such a worker has attached.
void ask_one_to_leave() {
    DatabaseState *best = nullptr;
    bool asked_one = false;
    bool one_is_leaving = false;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    for (DatabaseState &db : shared_state()->databases) {
        if (db.pid == 0 && !db.starting) continue;
        if (db.leave) {
            asked_one = true;
            one_is_leaving |= !db.in_round;
        } else if (best == nullptr || rather(&db, best)) {
            best = &db;
        }
    }
    if (best != nullptr && !one_is_leaving && !(asked_one && best->in_round)) {
        best->leave = true;
        if (best->worker != nullptr) SetLatch(&best->worker->procLatch);
    }
    LWLockRelease(database_states_lock());
}

// Starts the workers that are due. Returns the time at which the next plan must be made.
TimestampTz start_due_workers(TimestampTz now) {
    for (;;) {
        Plan plan;
        make_plan(&plan, now);
        if (plan.unknown_database && now >= self.last_scan + core::kSecond) {
            scan_databases(now);
            continue;
        }
        self.refused_till = bounded(self.refused_till, now, core::kLongestLaunchBackoff);
        const bool refused = now < self.refused_till;
        const core::LaunchPlan launch =
            core::plan_launch(plan.facts, plan.count, plan.running, refused ? 0 : settings.max_workers, now, kLead);
        if ((launch.starved && plan.running > 0) || plan.running > settings.max_workers) ask_one_to_leave();
        TimestampTz wake_at = refused ? Min(launch.wake_at, self.refused_till) : launch.wake_at;
        if (plan.unknown_database) wake_at = Min(wake_at, self.last_scan + core::kSecond);
        if (launch.start < 0) return wake_at;
        start_worker(plan.facts[launch.start].database, now);
    }
}

[[noreturn]] void run_launcher() {
    for (;;) {
        if (asked_to_stop()) proc_exit(1);
        const bool reloaded = reload_settings();
        const TimestampTz now = checked_now();
        // Makes a round due in all databases, because deadlines can depend on the settings that were reloaded.
        if (reloaded) everything_is_due(now);
        collect_workers(now);
        note_room(now);
        // Reading pg_database also applies the setting jobq.databases. If the clock was set back, pg_database is read
        // too early rather than too late.
        if (reloaded || pg_atomic_read_u32(&shared_state()->databases_changed) != 0 || now < self.last_scan ||
            now >= self.last_scan + kScanInterval)
            scan_databases(now);
        tidy_states();
        const TimestampTz wake_at = settings.enabled ? start_due_workers(now) : kNothingDue;
        wait_for_latch(core::clamp_sleep(now, wake_at, kMinSleep, kMaxSleep), WaitEvent::LauncherMain);
    }
}

}  // namespace

void register_launcher() {
    if (IsBinaryUpgrade || !IsPostmasterEnvironment) return;
    BackgroundWorker worker = {};
    strlcpy(worker.bgw_name, "jobq launcher", sizeof(worker.bgw_name));
    strlcpy(worker.bgw_type, "jobq launcher", sizeof(worker.bgw_type));
    worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
    worker.bgw_restart_time = 1;
    strlcpy(worker.bgw_library_name, "jobq", sizeof(worker.bgw_library_name));
    strlcpy(worker.bgw_function_name, "jobq_launcher_main", sizeof(worker.bgw_function_name));
    RegisterBackgroundWorker(&worker);
}

extern "C" {

PGDLLEXPORT void jobq_launcher_main(Datum) {
    install_signal_handlers();
    enter_shared_memory();
    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
    use_own_settings();
    read_settings();
    ereport(DEBUG1, (errmsg_internal("jobq launcher started")));
    run_launcher();
}

}  // extern "C"

}  // namespace jobq
