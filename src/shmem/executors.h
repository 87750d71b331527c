// The slots of the executors in shared memory. An executor is a background process that runs SQL handlers
// (handlers/README.md). The slots decide whether the leases of executors are valid: such a lease never expires
// (core::kEndlessLease in the row) and is valid as long as the slot of a living process contains it. Therefore
//
// * an executor writes the lease into its slot before the claim commits, and removes it after the end of the job has
//   committed;
// * a search for leases without an executor reads first the rows and then the slots;
// * the slot of a process that has exited keeps its leases until a session has seen in the table that they have ended;
// * after a crash, a restart, or a promotion there are no slots, so none of these leases is valid.
#pragma once

#include "compat/pg.h"
#include "compat/settings.h"
#include "core/job.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

enum class ExecutorState : uint8 {
    Free,
    Starting,  // the process has been registered but has not attached to the slot
    Idle,      // the process searches or waits for a job
    Busy,
    Ended,   // the process has exited and had a lease
    Failed,  // the process exited before it could begin; the pool waits for kFailedRest before it starts another
             // process
};

// A lease; 0: no lease.
struct ExecutorLease {
    int64 job;
    int64 lease;
};

struct ExecutorSlot {
    ExecutorState state;
    Oid database, role;
    uint32 generation;  // incremented each time the slot is reused
    int pid;            // 0: the process has not attached yet, or has exited
    PGPROC *proc;
    bool leave;            // the process must exit after its current work
    TimestampTz asked_at;  // when the process was asked to exit
    bool terminated;       // the process was terminated, through no fault of its job
    uint64 handler;        // core::handler_hash() of the handler whose jobs the process claims; 0: none
    // `next` was claimed by a transaction that may not have committed yet.
    ExecutorLease now, next;
    bool begun;         // the process has begun the job of `now`
    bool reported;      // the handler itself has ended the job, instead of returning a result
    int64 interrupted;  // the lease of the job during which the process was last interrupted
    TimestampTz interrupted_at;
    TimestampTz since;  // when the slot entered its state
    TimestampTz started_at;
};

// How long a pool (the executors of one role in one database) waits after a process failed to start.
constexpr core::Micros kFailedRest = 5 * core::kSecond;

// ---- Functions for the processes that start and supervise executors.

// Takes a slot for a process that will be registered next. Returns nullptr if `at_most` slots are taken or the pool
// rests after a failure.
ExecutorSlot *take_executor_slot(Oid database, Oid role, int at_most, TimestampTz now);
// Frees the slot because the process could not be registered.
void give_back_executor_slot(ExecutorSlot *slot);
int index_of_executor(const ExecutorSlot *slot);

// Frees the slots of processes that never attached, and the slots in the state Failed after kFailedRest.
void tidy_executors(TimestampTz now);
// Copies all kMaxExecutors slots.
void read_executors(ExecutorSlot *copies);

// Records whether handlers of the session's database wait for an executor.
void note_executor_wait(bool waits, TimestampTz now);
// Returns the number of databases that have waited for an executor longer than the session's database.
int databases_ahead(TimestampTz now);
// Wakes the background worker of the database that has waited longest for an executor, if any, because a slot is free.
void call_longest_waiting(TimestampTz now);

// Asks an executor to exit after its current work. `generation` is the value in the copy on which the caller based its
// decision; if the slot has been reused since, nothing happens.
void ask_executor_to_leave(int index, uint32 generation, TimestampTz now);
// Interrupts the executor as pg_cancel_backend() would, unless it no longer works on the job with this lease.
void interrupt_executor(int index, int64 lease, TimestampTz now);
// Terminates the executor as pg_terminate_backend() would, unless it no longer works on the job with this lease.
void terminate_executor(int index, int64 lease);

// Makes the waiting executors of a database exit, because a session (such as DROP DATABASE) needs the database without
// them. If `hard` is true, also terminates the executors that are running jobs. Returns whether the database has any
// executor.
bool send_executors_away(Oid database, bool hard);

// ---- Functions for the duty that searches for leases without a holder.

// Returns whether a living executor of the session's database has the lease.
bool executor_holds(int64 job, int64 lease);
// Copies the leases of exited executors of the session's database and returns their number, at most 2 * kMaxExecutors.
struct EndedLease {
    ExecutorLease lease;
    bool blameless;  // the executor was asked to exit, or had not begun the job
    int slot;
    uint32 generation;
    TimestampTz ended_at;  // when the process ended
};
int ended_executors(EndedLease *leases);
// Frees the slot of an exited executor. Call it after the table shows that the lease has ended.
void forget_ended_executor(const EndedLease &ended);
// Frees the slots of exited executors of a database that was dropped or whose extension was dropped.
void forget_executors_of(Oid database);
// Returns whether the last shutdown of the server was clean, so that the executors were asked to exit.
bool last_shutdown_was_clean();

// ---- Functions for the executor itself.

// Attaches this process to its slot. Returns false if the slot has been freed in the meantime.
bool enter_executor_slot(int index, uint32 generation);
const ExecutorSlot *own_executor_slot();
// Marks the executor as waiting for a job.
void executor_is_ready();
// Records in the slot that this executor claims jobs of the handler. Returns false if `at_most` executors already do
// so. `handler` 0 means that the executor no longer claims jobs.
bool take_handler_place(uint64 handler, int at_most);
// Records the lease of a claimed job in the slot. Call it after the claim and before the transaction ends.
void note_next_lease(int64 job, int64 lease);
// Makes the next lease the current one. Call it after the end of the transaction that claimed the next job and that may
// have ended the previous one.
void begin_next_lease();
// Records that the job has begun, so that if the process exits from now on, the job may be the cause.
void lease_has_begun();
void drop_next_lease();
// Removes the lease after the end or release of the job has committed.
void end_lease_of_executor();
// Records that the handler itself has ended the job with this lease.
void note_own_report(int64 lease);

// ---- Functions that a commit calls.

// Returns the bit of a queue in DatabaseState::handler_queues.
uint64 handler_bit(const char *queue);
// Wakes the executors that wait in a database because there may be jobs for its handlers. Also wakes the background
// worker if it has requested this (DatabaseState::executors_wanted).
void call_executors(DatabaseState *db);
// Wakes only the background worker, if it has requested this. For an executor that has found a job.
void call_supervisor_if_wanted();
// Wakes the background worker of a database so that it checks its executors.
void call_supervisor(DatabaseState *db);

// Sets up the executors in shared memory, for main/jobq.cpp.
Size executors_size();
void make_executors(void *memory, bool fresh);
SharedUsage executors_usage();

}  // namespace jobq
