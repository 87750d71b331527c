// The states of the databases in shared memory, and the rules for accessing them.
//
// A state belongs to one database. Every commit that publishes a deadline reads and lowers `database`, `next_due`, and
// `worker` without a lock. Everything else is written under the lock, except for fields that are never read together
// with others: fields that only the database's worker writes, and results of searches (`leases_found` to `look_took`,
// `heartbeats_checked*`, `relied_on`), where a lost write only causes another search, or a search that is a minute
// late. No error may be raised while the lock is held.
#pragma once

#include "compat/pg.h"
#include "core/duty.h"
#include "core/key_space.h"
#include "core/launch.h"
#include "shmem/horizon.h"
#include "shmem/memory.h"

extern "C" {
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
}

namespace jobq {

constexpr int kMaxDatabases = 128;
constexpr int kErrorBytes = 256;
constexpr int kVersionBytes = 32;
// Number of steps that fail and back off independently: the duties, the planning of the next round, and the supervision
// of executors.
constexpr int kStepCount = core::kDutyCount + 2;
constexpr int kPlanStep = core::kDutyCount;
constexpr int kExecutorsStep = core::kDutyCount + 1;
// Step of an error that ended the whole worker.
constexpr int kWorkerStep = -1;

constexpr TimestampTz kNothingDue = DT_NOEND;
static_assert(kNothingDue == core::kNever, "the launch plan knows this value");

enum class Presence : uint8 { Unknown, Absent, Present };

// The epoch of the triggers (row/jobs_catalog.h) in which the triggers do not report manual changes.
constexpr uint64 kNoEpoch = 0;

struct StepReport {
    int64 done;              // number of jobs changed since the server started
    int failures;            // number of failures in a row
    TimestampTz not_before;  // earliest time of the next attempt, because failures back off
    uint32 logged;           // fingerprint of the logged error; 0: the step works
};

// Where the repair of the empty ranges continues; each round repairs one piece. Lanes are in the order of their key
// spaces and ids.
struct RepairPlace {
    core::KeySpace space;
    int64 lane;
    core::ClaimKey key;
};
constexpr RepairPlace kRepairBegins = {core::KeySpace::Claimable, PG_INT64_MIN, core::kFirstKey};

// The reason why handlers with jobs have no executor.
enum class ExecutorWait : uint8 {
    None,
    NoPlace,    // all executors that jobq.max_executors allows are busy
    NoProcess,  // max_worker_processes is exhausted
};

struct DatabaseState {
    pg_atomic_uint32 database;     // InvalidOid: free
    pg_atomic_uint32 unpublished;  // PreparedEffects that a session of another database has left to the worker
    pg_atomic_uint64
        next_due;             // TimestampTz of the next round; kNothingDue: no round is planned, or one is in progress
    PGPROC *volatile worker;  // the worker whose latch to set; cleared before the process ends

    pg_atomic_uint64 handler_queues;  // a bit for each queue with a handler (shmem/executors.h); 0: no handlers
    pg_atomic_uint32
        executors_wanted;          // jobs for handlers must be reported to the worker, because it can start an executor
    pg_atomic_uint32 supervision;  // the worker must check the executors
    volatile ExecutorWait executors_wait;
    TimestampTz wait_reported_at;  // when the wait was last logged

    volatile bool leave;    // the worker must exit as soon as possible; only the worker reads this without the lock
    volatile int keep_out;  // number of sessions that need the database for themselves

    TimestampTz started_at;       // when the last worker was registered
    int pid;                      // pid of the attached worker; 0: none
    int recount_pid;              // pid of the process that counts the table; 0: none
    TimestampTz recount_started;  // when the last counting process was registered
    bool starting;                // a worker is registered but not attached yet
    bool in_round;
    core::Rest rests;       // why the duties leave the jobs alone, if they do
    TimestampTz round_due;  // value of next_due when the round began
    Presence extension;
    char version[kVersionBytes];  // version of the installed extension
    int failures;                 // number of failures of whole workers in a row
    TimestampTz not_before;

    volatile bool unserved;  // the launcher has found that it must not start workers in the database
    bool leases_found;  // since this state was taken, a search has looked for running jobs that are missing from the
                        // rescue's index
    bool look_held;     // the last search skipped jobs whose rows were locked
    volatile bool jobs_locked;  // a lock on jobq.jobs has been noted, and no rescue has acquired its own lock since
    int last_error_step;        // step of last_error; kWorkerStep: the whole worker
    uint64 looked_epoch;        // epoch of the triggers at the last search: see leases/rescue_index.cpp
    TimestampTz looked_at;      // when that search ended
    core::Micros look_took;     // how long it took
    Horizon horizon;
    uint64 horizon_version;  // changes each time the horizon is lowered

    RepairPlace repaired_to;

    TimestampTz heartbeats_checked;        // when heartbeats from the future were last looked for
    TimestampTz heartbeats_checked_grace;  // start of the grace at that time

    pg_atomic_uint64 jobs_free_at;  // when the table was last seen without such a lock; 0: never
    pg_atomic_uint64 unlocked_at;   // when a duty last got the table after such a long lock; 0: never

    TimestampTz last_round;   // end of the last round; 0: none
    TimestampTz last_chores;  // when prune and repair ran last
    int64 rounds;
    volatile TimestampTz relied_on;  // approximate time at which a claim last found nothing because of empty ranges
    StepReport steps[kStepCount];
    char last_error[kErrorBytes];
    TimestampTz last_error_at;
    TimestampTz last_error_over_at;  // when the failed step worked again; 0: not yet
};

struct SharedState {
    PGPROC *volatile launcher;
    int launcher_pid;
    bool out_of_worker_slots;  // max_worker_processes is exhausted
    pg_atomic_uint32 databases_changed;
    uint64 horizon_versions;      // last version given; under the lock
    pg_atomic_uint32 table_full;  // a database found no free state
    pg_atomic_uint64 grace_start;
    pg_atomic_uint64 writing_since;  // 0: no process has asked since the server began to write
    pg_atomic_uint64 clock_offset;   // wall clock minus monotonic clock
    DatabaseState databases[kMaxDatabases];
};

// Returns the entry of a database in a table of shared memory that has one entry for each database, or nullptr if it
// has none. An entry is a struct with a member `database`, which is InvalidOid in a free entry. The caller must hold
// the lock of the table.
template <typename PerDatabase>
PerDatabase *part_of_database(PerDatabase (&databases)[kMaxDatabases], Oid oid) {
    static int last = 0;
    if (databases[last].database == oid) return &databases[last];
    for (int i = 0; i < kMaxDatabases; i++) {
        if (databases[i].database != oid) continue;
        last = i;
        return &databases[i];
    }
    return nullptr;
}

// Returns nullptr without preload.
SharedState *shared_state();
LWLock *database_states_lock();

// Sets up the states in shared memory, for main/jobq.cpp.
Size database_states_size();
void make_database_states(void *memory, bool fresh);
SharedUsage database_states_usage();

// Returns the state of a database, or nullptr if it has none. Needs no lock, but without one the state may be given to
// another database at any time.
DatabaseState *find_database_state(Oid database);
// Does the same, but takes a free state if necessary. Takes the lock. Returns nullptr if the table is full.
DatabaseState *obtain_database_state(Oid database);
// Frees a state in which nothing is due. The caller must hold the lock. Returns false if a commit has just published
// something.
bool release_database_state(DatabaseState *db);

// Return the state of this session's database. session_database() takes a state if necessary; known_session_database()
// returns nullptr instead. Neither raises an error.
DatabaseState *session_database();
DatabaseState *known_session_database();

// Returns whether a state belongs to this database. The answer stays valid while the caller holds the lock.
inline bool belongs_here(DatabaseState *db) { return pg_atomic_read_u32(&db->database) == MyDatabaseId; }

// Calls write(db) with the state of this session's database, and again with another state if the launcher has given the
// first one away in the meantime. Does nothing if the database has no state.
template <typename Write>
void for_session_database(Write write) {
    for (;;) {
        DatabaseState *db = session_database();
        if (db == nullptr) return;
        write(db);
        if (belongs_here(db)) return;
    }
}

// Returns whether a claim may leave it to the background worker to put the job into the rescue's index
// (leases/young_leases.h): a worker exists and knows which jobs were running before.
bool indexing_is_lazy();

// Returns whether heartbeats from the future must be searched for, because the clock has stepped, a job was changed
// manually, or the last search was long ago. Always true without preload.
bool heartbeats_doubtful(TimestampTz grace_start);
void heartbeats_checked(TimestampTz grace_start);
void doubt_heartbeats();

// While another session holds a lock on jobq.jobs that conflicts with writes, workers cannot send heartbeats, so a
// lease may run out although its worker is alive. Each duty therefore notes whether it found the table so locked. A
// rescue that found it locked first waits until it gets the table. The first duty that gets the table after a lock of
// kLongLock or longer gives all leases one timeout of grace. Shorter locks give no grace, because frequent ones would
// delay the rescue forever. Without preload the note is visible only to the session that made it.
constexpr core::Micros kLongLock = 5 * core::kSecond;
void note_jobs_free();
void note_jobs_locked();
bool jobs_were_locked();
// Returns when the last grace began; 0: never.
TimestampTz jobs_unlocked_at();

// Returns whether a background worker repairs errors in this session's database: one has run there and may run again.
bool worker_serves_database();

inline TimestampTz due_of(DatabaseState *db) { return static_cast<TimestampTz>(pg_atomic_read_u64(&db->next_due)); }
// Returns the limit `until` as it applies now. If `until` is more than `longest` after a moment that may be a little
// later than `now`, it was set before the clock stepped back and no longer applies.
inline TimestampTz bounded(TimestampTz until, TimestampTz now, core::Micros longest) {
    return until - now > longest + core::kSecond ? now : until;
}

// Lowers next_due. Returns true if no time as early was known.
bool lower_due(DatabaseState *db, TimestampTz due);
// Lowers next_due and notifies the worker of the database, or else the launcher.
void publish_due(DatabaseState *db, TimestampTz due);
// Notifies the worker of work outside its rounds, or has a worker started. A worker that exits checks once more after
// it has cleared db->worker.
void call_worker(DatabaseState *db);

void wake_launcher();

// Asks for a round within the tick interval, even if no job is known to be unfinished, because a claim found nothing
// due to empty ranges. The round finds jobs that became claimable without notification. Raises no error.
void ask_for_round(TimestampTz now);

}  // namespace jobq
