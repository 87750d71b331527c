// See database_state.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "shmem/wall_clock.h"

extern "C" {
#include "storage/latch.h"
}

namespace jobq {

namespace {

SharedState *shared = nullptr;

// The database state that this session's last lookup found.
DatabaseState *own_database = nullptr;

// What this session has found out about locks on jobq.jobs. Used if the session's database has no state. See
// note_jobs_locked().
struct {
    bool jobs_locked;
    TimestampTz free_at;
    TimestampTz unlocked_at;
} without_state;

void init_database_state(DatabaseState *db) {
    pg_atomic_write_u64(&db->next_due, static_cast<uint64>(kNothingDue));
    db->worker = nullptr;
    pg_atomic_write_u64(&db->handler_queues, 0);
    pg_atomic_write_u32(&db->executors_wanted, 0);
    pg_atomic_write_u32(&db->supervision, 0);
    pg_atomic_write_u64(&db->jobs_free_at, 0);
    pg_atomic_write_u64(&db->unlocked_at, 0);
    pg_atomic_write_u32(&db->unpublished, 0);
    constexpr Size kBegin = offsetof(DatabaseState, executors_wait);
    memset(reinterpret_cast<char *>(db) + kBegin, 0, sizeof(DatabaseState) - kBegin);
    db->round_due = kNothingDue;
    db->horizon = kUnknownHorizon;
    db->repaired_to = kRepairBegins;
    db->last_error_step = kWorkerStep;
}

// Returns the state of this session's database, or nullptr if no worker will be started in it.
const DatabaseState *served_database() {
    const DatabaseState *db = settings.enabled ? known_session_database() : nullptr;
    return db != nullptr && !db->unserved && shared->launcher != nullptr ? db : nullptr;
}

}  // namespace

Size database_states_size() { return sizeof(SharedState); }

void make_database_states(void *memory, bool fresh) {
    shared = static_cast<SharedState *>(memory);
    if (!fresh) return;
    pg_atomic_init_u32(&shared->databases_changed, 0);
    pg_atomic_init_u32(&shared->table_full, 0);
    pg_atomic_init_u64(&shared->grace_start, 0);
    pg_atomic_init_u64(&shared->writing_since, 0);
    pg_atomic_init_u64(&shared->clock_offset, 0);
    for (DatabaseState &db : shared->databases) {
        pg_atomic_init_u32(&db.database, InvalidOid);
        pg_atomic_init_u64(&db.next_due, static_cast<uint64>(kNothingDue));
        pg_atomic_init_u64(&db.handler_queues, 0);
        pg_atomic_init_u32(&db.executors_wanted, 0);
        pg_atomic_init_u32(&db.supervision, 0);
        init_database_state(&db);
    }
    start_clock();
}

SharedUsage database_states_usage() {
    int64 entries = 0;
    for (DatabaseState &db : shared->databases) entries += pg_atomic_read_u32(&db.database) != InvalidOid;
    return {entries, kMaxDatabases, kNeverEvicts};
}

SharedState *shared_state() { return shared; }

LWLock *database_states_lock() { return shared_lock(Part::Databases); }

DatabaseState *find_database_state(Oid database) {
    for (DatabaseState &db : shared->databases) {
        if (pg_atomic_read_u32(&db.database) == database) return &db;
    }
    return nullptr;
}

DatabaseState *obtain_database_state(Oid database) {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    DatabaseState *db = find_database_state(database);
    if (db == nullptr) {
        db = find_database_state(InvalidOid);
        if (db != nullptr) {
            init_database_state(db);
            pg_write_barrier();
            pg_atomic_write_u32(&db->database, database);
        } else {
            pg_atomic_write_u32(&shared->table_full, 1);
        }
    }
    LWLockRelease(database_states_lock());
    return db;
}

bool release_database_state(DatabaseState *db) {
    const Oid database = pg_atomic_read_u32(&db->database);
    pg_atomic_write_u32(&db->database, InvalidOid);
    // A commit first lowers next_due and then checks `database`. So either this session sees the lowered next_due, or
    // the committing session sees that the state has been freed.
    pg_memory_barrier();
    if (due_of(db) == kNothingDue) return true;
    pg_atomic_write_u32(&db->database, database);
    return false;
}

DatabaseState *session_database() {
    DatabaseState *db = known_session_database();
    if (db == nullptr) db = own_database = obtain_database_state(MyDatabaseId);
    return db;
}

DatabaseState *known_session_database() {
    if (shared == nullptr) return nullptr;
    if (own_database == nullptr || pg_atomic_read_u32(&own_database->database) != MyDatabaseId)
        own_database = find_database_state(MyDatabaseId);
    return own_database;
}

bool indexing_is_lazy() {
    const DatabaseState *db = served_database();
    return db != nullptr && db->leases_found;
}

bool worker_serves_database() {
    const DatabaseState *db = served_database();
    return db != nullptr && db->rounds > 0;
}

bool heartbeats_doubtful(TimestampTz grace_start) {
    const DatabaseState *db = known_session_database();
    const core::Micros age = db == nullptr ? 0 : GetCurrentTimestamp() - db->heartbeats_checked;
    return db == nullptr || db->heartbeats_checked_grace != grace_start || age < 0 || age > core::kMinute;
}

void heartbeats_checked(TimestampTz grace_start) {
    DatabaseState *db = known_session_database();
    if (db == nullptr) return;
    db->heartbeats_checked = GetCurrentTimestamp();
    db->heartbeats_checked_grace = grace_start;
}

void doubt_heartbeats() {
    if (DatabaseState *db = known_session_database()) db->heartbeats_checked_grace = 0;
}

void note_jobs_free() {
    DatabaseState *db = known_session_database();
    const TimestampTz now = GetCurrentTimestamp();
    const TimestampTz free_at =
        db == nullptr ? without_state.free_at : static_cast<TimestampTz>(pg_atomic_read_u64(&db->jobs_free_at));
    const bool long_lock = jobs_were_locked() && now - free_at >= kLongLock;
    without_state.free_at = now;
    without_state.jobs_locked = false;
    if (long_lock) without_state.unlocked_at = now;
    if (db == nullptr) return;
    // Sets the start of the grace period before marking the table as unlocked, so that no rescue overlooks the grace
    // period.
    if (long_lock) pg_atomic_write_u64(&db->unlocked_at, static_cast<uint64>(now));
    db->jobs_locked = false;
    pg_atomic_write_u64(&db->jobs_free_at, static_cast<uint64>(now));
}

void note_jobs_locked() {
    without_state.jobs_locked = true;
    if (DatabaseState *db = known_session_database()) db->jobs_locked = true;
}

bool jobs_were_locked() {
    const DatabaseState *db = known_session_database();
    return db == nullptr ? without_state.jobs_locked : db->jobs_locked;
}

TimestampTz jobs_unlocked_at() {
    DatabaseState *db = known_session_database();
    return db == nullptr ? without_state.unlocked_at : static_cast<TimestampTz>(pg_atomic_read_u64(&db->unlocked_at));
}

bool lower_due(DatabaseState *db, TimestampTz due) {
    // The changes that the caller has committed must be visible before this function reads next_due and concludes that
    // a planned round will see them.
    pg_memory_barrier();
    uint64 known = pg_atomic_read_u64(&db->next_due);
    while (static_cast<TimestampTz>(known) > due) {
        if (pg_atomic_compare_exchange_u64(&db->next_due, &known, static_cast<uint64>(due))) return true;
    }
    return false;
}

void publish_due(DatabaseState *db, TimestampTz due) {
    if (!lower_due(db, due)) return;
    pg_memory_barrier();
    // The request is not lost if the worker is exiting, because the worker first clears db->worker and then wakes the
    // launcher, which reads next_due.
    PGPROC *worker = db->worker;
    if (worker != nullptr)
        SetLatch(&worker->procLatch);
    else
        wake_launcher();
}

void call_worker(DatabaseState *db) {
    pg_memory_barrier();
    PGPROC *worker = db->worker;
    if (worker != nullptr)
        SetLatch(&worker->procLatch);
    else
        publish_due(db, GetCurrentTimestamp());
}

void wake_launcher() {
    PGPROC *launcher = shared->launcher;
    if (launcher != nullptr) SetLatch(&launcher->procLatch);
}

void ask_for_round(TimestampTz now) {
    DatabaseState *db = known_session_database();
    if (db == nullptr) return;
    db->relied_on = now;
    publish_due(db, now + tick_interval());
}

}  // namespace jobq
