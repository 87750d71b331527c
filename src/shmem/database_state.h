// The states of the databases in shared memory, and the rules for touching them.
//
// A state belongs to one database. `database`, `next_due` and `worker` are read and lowered without a lock by every
// commit that publishes a deadline. Everything else is written under the lock, but for what nobody reads together with
// others: fields that the database's worker alone writes, and what somebody found who looked (`leases_found` to
// `look_took`, `heartbeats_checked*`, `relied_on`), where a write that is lost to another costs one more look, or one a
// minute later. No error may be raised while the lock is held.
#pragma once

#include "bgw/launch_policy.h"
#include "compat/pg.h"
#include "duties/duty_policy.h"
#include "lanes/key_space_policy.h"
#include "shmem/horizon.h"

extern "C" {
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
}

namespace jobq {

constexpr int kMaxDatabases = 128;
constexpr int kErrorBytes = 256;
constexpr int kVersionBytes = 32;
// The duties, the planning of the next round, and what is done about executors each fail and back off for themselves.
constexpr int kStepCount = core::kDutyCount + 2;
constexpr int kPlanStep = core::kDutyCount;
constexpr int kExecutorsStep = core::kDutyCount + 1;
// Where an error is said to be from: a whole worker, which ended before its time.
constexpr int kWorkerStep = -1;

constexpr TimestampTz kNothingDue = DT_NOEND;
static_assert(kNothingDue == core::kNever, "the launch plan knows this value");

enum class Presence : uint8 { Unknown, Absent, Present };

// The epoch of the triggers (job/jobs_table.h) in which nobody is told of changes by hand.
constexpr uint64 kNoEpoch = 0;

struct StepReport {
    int64 done;              // jobs changed since the server started
    int failures;            // in a row
    TimestampTz not_before;  // failures back off
    uint32 logged;           // fingerprint of the error in the log, 0: it works
};

// Where the repair of the empty ranges goes on, a piece a round; lanes in the order of their key spaces and ids.
struct RepairPlace {
    core::KeySpace space;
    int64 lane;
    core::ClaimKey key;
};
constexpr RepairPlace kRepairBegins = {core::KeySpace::Claimable, PG_INT64_MIN, core::kFirstKey};

// Why handlers with jobs have no executor.
enum class ExecutorWait : uint8 {
    None,
    NoPlace,    // all that jobq.max_executors allows are busy
    NoProcess,  // max_worker_processes is exhausted
};

struct DatabaseState {
    pg_atomic_uint32 database;     // InvalidOid: free
    pg_atomic_uint32 unpublished;  // PreparedEffects that a session of another database has left to the worker
    pg_atomic_uint64 next_due;     // TimestampTz of the next round; kNothingDue: none, or one is going on
    PGPROC *volatile worker;       // whose latch to set; cleared before the process ends

    pg_atomic_uint64 handler_queues;    // a bit for each queue with a handler (shmem/executors.h); 0: none
    pg_atomic_uint32 executors_wanted;  // the worker wants to hear of jobs for them: it can start an executor
    pg_atomic_uint32 supervision;       // the worker shall look after the executors
    volatile ExecutorWait executors_wait;
    TimestampTz told_of_wait;  // when that was logged last

    volatile bool leave;    // the worker shall go as soon as it can; it alone reads this without the lock
    volatile int keep_out;  // sessions that need the database for themselves

    TimestampTz started_at;       // when the last worker was registered
    int pid;                      // of the attached worker, 0: none
    int recount_pid;              // of the process that counts the table, 0: none
    TimestampTz recount_started;  // when the last one was registered
    bool starting;                // registered, not attached yet
    bool in_round;
    core::Rest rests;       // the duties leave the jobs alone
    TimestampTz round_due;  // what next_due was when the round began
    Presence extension;
    char version[kVersionBytes];  // of the installed extension
    int failures;                 // of whole workers, in a row
    TimestampTz not_before;

    volatile bool unserved;  // the launcher has found that the database is none that it may start workers in
    bool leases_found;  // running jobs that the rescue's index lacks have been looked for since this state was taken
    bool look_held;     // the last search skipped jobs whose rows were locked
    volatile bool jobs_locked;  // a lock on jobq.jobs has been met, and no rescue has got past it yet
    int last_error_step;        // what last_error is about; kWorkerStep: a whole worker
    uint64 looked_epoch;        // the epoch of the triggers in which that was last, see leases/rescue_index.cpp
    TimestampTz looked_at;      // and when
    core::Micros look_took;     // and how long it took
    Horizon horizon;
    uint64 horizon_version;  // another one whenever the horizon is lowered

    RepairPlace repaired_to;

    TimestampTz heartbeats_checked;        // when heartbeats from the future were looked for last
    TimestampTz heartbeats_checked_grace;  // and what the start of the grace was then

    pg_atomic_uint64 jobs_free_at;  // when there was last no such lock, 0: never seen
    pg_atomic_uint64 unlocked_at;   // when a rescue last got past such a lock that had lasted, 0: never

    TimestampTz last_round;   // end of the last round, 0: none
    TimestampTz last_chores;  // when prune and repair ran last
    int64 rounds;
    volatile TimestampTz relied_on;  // when a claim that found nothing last relied on empty ranges, about
    StepReport steps[kStepCount];
    char last_error[kErrorBytes];
    TimestampTz last_error_at;
    TimestampTz last_error_over_at;  // when what had failed worked again, 0: it has not
};

struct SharedState {
    PGPROC *volatile launcher;
    int launcher_pid;
    bool out_of_worker_slots;  // max_worker_processes is exhausted
    pg_atomic_uint32 databases_changed;
    uint64 horizon_versions;      // the last one given; under the lock
    pg_atomic_uint32 table_full;  // a database found no free state
    pg_atomic_uint64 grace_start;
    pg_atomic_uint64 writing_since;  // 0: nobody has asked since the server writes
    pg_atomic_uint64 clock_offset;   // wall clock minus monotonic clock
    DatabaseState databases[kMaxDatabases];
};

// The part of a database in a table of shared memory that has one for each: a struct with a member `database`,
// InvalidOid in a free one. nullptr: it has none. Under the lock of that table.
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

// nullptr without preload.
SharedState *shared_state();
LWLock *database_states_lock();

// For main/jobq.cpp: its part of the shared memory.
Size database_states_size();
void make_database_states(void *memory, bool fresh);

// The state of a database, nullptr when it has none. Needs no lock, but it may be given away without one.
DatabaseState *find_database_state(Oid database);
// The same, taking a free one. Takes the lock. nullptr when the table is full.
DatabaseState *obtain_database_state(Oid database);
// Returns how many databases have a state.
int count_databases();
// Frees a state in which nothing is due. Lock held. False when a commit published something just now.
bool release_database_state(DatabaseState *db);

// The state of this session's database; the first takes one if need be, the second returns nullptr. No error is raised.
DatabaseState *session_database();
DatabaseState *known_session_database();

// Whether a state is this database's. Under the lock it stays so.
inline bool belongs_here(DatabaseState *db) { return pg_atomic_read_u32(&db->database) == MyDatabaseId; }

// Calls write(db) with the state of this session's database, and again with another one when the launcher has given
// that away meanwhile. Without a state: not at all.
template <typename Write>
void for_session_database(Write write) {
    for (;;) {
        DatabaseState *db = session_database();
        if (db == nullptr) return;
        write(db);
        if (belongs_here(db)) return;
    }
}

// Whether a claim may leave it to the background worker to put the job into the rescue's index (leases/young_leases.h):
// there is one, and it knows which jobs were running before.
bool indexing_is_lazy();

// Whether heartbeats from the future must be looked for: the clock has stepped, somebody has changed a job by hand, or
// it was long ago. Always without preload.
bool heartbeats_doubtful(TimestampTz grace_start);
void heartbeats_checked(TimestampTz grace_start);
void doubt_heartbeats();

// While another session holds a lock on jobq.jobs that conflicts with writes, workers cannot send heartbeats, so a
// lease may run out although its worker is alive. Each duty therefore notes whether it found the table so locked. The
// next rescue first waits until it gets the table. If the lock lasted kLongLock or longer, the rescue gives all leases
// one timeout of grace. Shorter locks give no grace, because frequent ones would delay the rescue forever. Without
// preload the note is visible only to the session that made it.
constexpr core::Micros kLongLock = 5 * core::kSecond;
void note_jobs_free();
void note_jobs_locked();
bool jobs_were_locked();
void note_jobs_unlocked();
// When a grace has begun last; 0: never.
TimestampTz jobs_unlocked_at();

// Whether a background worker repairs what is wrong in this session's database: one has been there, and may come again.
bool worker_comes_by();

inline TimestampTz due_of(DatabaseState *db) { return static_cast<TimestampTz>(pg_atomic_read_u64(&db->next_due)); }
// `until` as it binds somebody now. One that is further off than `longest`, counted from a moment that may be a little
// later than `now`, was set before the clock stepped back.
inline TimestampTz bounded(TimestampTz until, TimestampTz now, core::Micros longest) {
    return until - now > longest + core::kSecond ? now : until;
}

// True when nothing as early was known.
bool lower_due(DatabaseState *db, TimestampTz due);
// Lowers it and tells the worker of the database, else the launcher.
void publish_due(DatabaseState *db, TimestampTz due);
// There is something for the worker besides its rounds: tells it, or has one started. A worker that goes looks once
// more after it has said so.
void call_worker(DatabaseState *db);

void wake_launcher();

// A claim found nothing because of empty ranges: a round shall come within the tick interval, although nothing may be
// unfinished, and find what was made claimable without a word. Raises no error.
void ask_for_round(TimestampTz now);

}  // namespace jobq
