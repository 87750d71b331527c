// The state of each database in shared memory, and the rules for accessing it.
//
// Every commit that publishes a deadline accesses `database`, `next_due`, and `worker` without a lock. All other
// members are written under the lock, with two exceptions, neither of which is read together with other members:
//  - members that only the worker of the database writes
//  - results of searches (`leases_found` to `look_took`, `heartbeats_checked*`, and `relied_on`), for which a lost
//    write only causes an additional search or delays a search by a minute
// No error may be raised while the lock is held.
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
// Number of steps in a round: the duties, the planning of the next round, and the supervision of executors. If a step
// fails, it is retried independently of the other steps.
constexpr int kStepCount = core::kDutyCount + 2;
constexpr int kPlanStep = core::kDutyCount;
constexpr int kExecutorsStep = core::kDutyCount + 1;
// Step number for an error that ended the whole worker.
constexpr int kWorkerStep = -1;

constexpr TimestampTz kNothingDue = DT_NOEND;
static_assert(kNothingDue == core::kNever, "the launch plan knows this value");

enum class Presence : uint8 { Unknown, Absent, Present };

// Value of the trigger epoch (row/jobs_catalog.h) while the triggers do not report changes with plain SQL.
constexpr uint64 kNoEpoch = 0;

struct StepReport {
    int64 done;              // number of jobs changed since the server started
    int failures;            // number of consecutive failures
    TimestampTz not_before;  // earliest time of the next attempt; later after each failure
    uint32 logged;  // hash of the error that was logged, so that it is not logged repeatedly; 0: the step works
};

// The position at which the next round resumes checking and repairing the empty ranges. The ranges are ordered by key
// space, lane, and key, and each round checks a part of them.
struct RepairPlace {
    core::KeySpace space;
    int64 lane;
    core::ClaimKey key;
};
constexpr RepairPlace kRepairBegins = {core::KeySpace::Claimable, PG_INT64_MIN, core::kFirstKey};

// The reason why no executor can be started for a handler that has jobs.
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
    PGPROC *volatile worker;  // the worker process whose latch must be set to wake it; cleared before the process exits

    pg_atomic_uint64 handler_queues;  // a bit for each queue with a handler (handlers/executor_slots.h); 0: no handlers
    pg_atomic_uint32
        executors_wanted;  // new jobs for handlers must be reported to the worker, because it can start an executor
    pg_atomic_uint32 supervision;   // the worker must check the executors
    pg_atomic_uint64 jobs_free_at;  // when the table was last seen without a conflicting lock; 0: never
    pg_atomic_uint64 unlocked_at;   // when a duty last locked the table after a lock of at least kLongLock; 0: never

    // When the state is assigned to a database, the members from here on are set to zero unless init_database_state()
    // sets another value.
    volatile ExecutorWait executors_wait;
    TimestampTz wait_reported_at;  // when the wait was last logged

    volatile bool leave;    // the worker must exit as soon as possible; only the worker reads this without the lock
    volatile int keep_out;  // number of sessions, such as DROP DATABASE, that need the database without workers

    TimestampTz started_at;       // when the last worker was registered
    int pid;                      // pid of the attached worker; 0: none
    int recount_pid;              // pid of the process that recounts the jobs; 0: none
    TimestampTz recount_started;  // when the last such process was registered
    bool starting;                // a worker is registered but not attached yet
    bool in_round;
    core::Rest rests;       // the reason why the duties do not change jobs at the moment, if there is one
    TimestampTz round_due;  // value of next_due when the round began
    Presence extension;
    char version[kVersionBytes];  // version of the installed extension
    int failures;                 // number of consecutive failures of whole workers
    TimestampTz not_before;

    volatile bool unserved;  // the launcher has found that it must not start workers in this database
    bool leases_found;  // since the database got this state, a search has looked for running jobs that are missing from
                        // the rescue's index
    bool look_held;     // the last search skipped jobs whose rows were locked
    volatile bool jobs_locked;  // jobq.jobs was found locked, and no rescue has locked the table since
    int last_error_step;        // step of last_error; kWorkerStep: the whole worker
    uint64 looked_epoch;        // trigger epoch at the last search; see leases/unindexed_search.cpp
    TimestampTz looked_at;      // when that search ended
    core::Micros look_took;     // how long it took
    Horizon horizon;
    uint64 horizon_version;  // changes each time the horizon is lowered

    RepairPlace repaired_to;

    TimestampTz heartbeats_checked;        // when the table was last searched for heartbeats from the future
    TimestampTz heartbeats_checked_grace;  // value of grace_start() at that time

    TimestampTz last_round;   // end of the last round; 0: none
    TimestampTz last_chores;  // when the duties prune and repair last ran
    int64 rounds;
    volatile TimestampTz relied_on;  // approximate time at which a claim last found no job and had skipped empty ranges
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
    uint64 horizon_versions;      // last horizon_version that was assigned; protected by the lock
    pg_atomic_uint32 table_full;  // no state was free for a database
    pg_atomic_uint64 grace_start;
    pg_atomic_uint64 writing_since;  // 0: writing_since() has not been called yet
    pg_atomic_uint64 clock_offset;   // wall clock minus monotonic clock
    DatabaseState databases[kMaxDatabases];
};

// Looks up a database in an array in shared memory that has one entry per database. Returns nullptr if the array has no
// entry for the database. An entry is a struct with a member `database`, which is InvalidOid in a free entry. The
// caller must hold the lock of the array.
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

// Returns the state that is shared by all databases, or nullptr if the library is not preloaded.
SharedState *shared_state();
LWLock *database_states_lock();

// main/jobq.cpp calls these functions to set up the states in shared memory.
Size database_states_size();
void make_database_states(void *memory, bool fresh);
SharedUsage database_states_usage();

// Returns the state of a database, or nullptr if it has none. The caller need not hold the lock, but without the lock,
// the state can be reassigned to another database at any time.
DatabaseState *find_database_state(Oid database);
// Acquires the lock and returns the state of a database. If the database has no state, assigns a free state to it.
// Returns nullptr if no state is free.
DatabaseState *obtain_database_state(Oid database);
// Frees a state in which nothing is due. The caller must hold the lock. Returns false without freeing the state if a
// commit has just published a deadline.
bool release_database_state(DatabaseState *db);

// These functions return the state of this session's database. If the database has no state, session_database() assigns
// a free state to it, and known_session_database() returns nullptr. Neither function raises an error.
DatabaseState *session_database();
DatabaseState *known_session_database();

// Returns whether the state belongs to this session's database. The result stays valid as long as the caller holds the
// lock.
inline bool belongs_here(DatabaseState *db) { return pg_atomic_read_u32(&db->database) == MyDatabaseId; }

// Returns whether the background processes must leave the database, because a command such as DROP DATABASE fails while
// other sessions are connected to the database.
inline bool must_make_room(const DatabaseState *db) { return db != nullptr && db->keep_out > 0; }

// Calls write(db) with the state of this session's database. Repeats the call with another state if the launcher has
// assigned the first state to another database in the meantime. Does nothing if no state is available.
template <typename Write>
void for_session_database(Write write) {
    for (;;) {
        DatabaseState *db = session_database();
        if (db == nullptr) return;
        write(db);
        if (belongs_here(db)) return;
    }
}

// Returns whether a claim does not need to add its job to the rescue's index, because the background worker can do this
// later (leases/young_leases.h). This is the case if the database has a worker, and the table has been searched for
// running jobs that are missing from this index.
bool indexing_is_lazy();

// Returns whether the table must be searched for heartbeats in the future. This is the case if the clock has stepped, a
// job was changed with plain SQL, or the last search was long ago. Always returns true if the library is not preloaded.
bool heartbeats_doubtful(TimestampTz grace_start);
void heartbeats_checked(TimestampTz grace_start);
void doubt_heartbeats();

// While another session holds a lock on jobq.jobs that conflicts with writes, workers cannot send heartbeats, so a
// lease can expire although its worker is alive. Each duty therefore records whether it found the table locked. A
// rescue that found the table locked waits until it can lock the table itself. The first duty that locks the table
// after another session has held such a lock for kLongLock or longer extends all leases by a grace period of one
// timeout. After shorter locks there is no grace period, because frequent short locks would otherwise delay the rescue
// forever. If the library is not preloaded, a session sees only its own records.
constexpr core::Micros kLongLock = 5 * core::kSecond;
void note_jobs_free();
void note_jobs_locked();
bool jobs_were_locked();
// Returns the time at which the last grace period after a long lock on jobq.jobs began, or 0 if there was none.
TimestampTz jobs_unlocked_at();

// Returns whether a background worker serves this session's database and will therefore repair inconsistencies. This is
// the case if a worker has run in the database and can be started again.
bool worker_serves_database();

inline TimestampTz due_of(DatabaseState *db) { return static_cast<TimestampTz>(pg_atomic_read_u64(&db->next_due)); }
// Returns the time limit `until`, or `now` if the limit was set before the clock stepped back. No limit is ever set
// further than `longest` into the future, so a limit that is further in the future (with a tolerance of one second)
// must have been set before the clock stepped back.
inline TimestampTz bounded(TimestampTz until, TimestampTz now, core::Micros longest) {
    return until - now > longest + core::kSecond ? now : until;
}

// Lowers next_due to `due`. Returns false if next_due was not later than `due`.
bool lower_due(DatabaseState *db, TimestampTz due);
// Lowers next_due to `due` and, if this has changed next_due, wakes the worker of the database, or the launcher if
// there is no worker.
void publish_due(DatabaseState *db, TimestampTz due);
// Wakes the worker of the database for work outside its rounds, or requests the start of a worker if there is none. A
// call is not lost if the worker is exiting, because the worker checks for work again after it has cleared db->worker.
void call_worker(DatabaseState *db);

void wake_launcher();

// Requests a round within the tick interval. Called when a claim has found no job but has skipped empty ranges. The
// round finds jobs that became claimable without notification, even if no unfinished job is known. Raises no error.
void ask_for_round(TimestampTz now);

}  // namespace jobq
