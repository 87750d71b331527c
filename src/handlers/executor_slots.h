// The executors' slots, which are in shared memory. An executor is a background process that runs SQL handlers
// (handlers/README.md). The slots decide whether the leases of executors are valid: such a lease never expires (the row
// contains core::kEndlessLease), and is valid as long as the slot of a living process contains it. Therefore:
//
//  * An executor writes the lease into its slot before the claim commits, and removes it after the end of the job has
//    been committed.
//  * A search for leases without an executor reads the rows first and the slots afterward.
//  * The slot of a process that has exited keeps its leases until a session has seen in the table that they have ended.
//  * After a crash, a restart, or a promotion of the server, there are no slots, so none of these leases is valid.
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
    Failed,  // the process exited before it could begin; the pool waits for kFailedRest
};

// A lease. If the numbers are 0, there is no lease.
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
    // `now` is the lease of the current job. `next` is the lease of the next job, whose claim might not have been
    // committed yet.
    ExecutorLease now, next;
    bool begun;         // the process has begun the job of the lease `now`
    bool reported;      // the handler itself has ended the job, instead of returning a result
    int64 interrupted;  // the lease of the job during which the process was last interrupted
    TimestampTz interrupted_at;
    TimestampTz since;  // when the slot entered its state
    TimestampTz started_at;
};

// How long a pool (the executors of one role in one database) waits after one of its processes failed to start.
constexpr core::Micros kFailedRest = 5 * core::kSecond;

// ---- Functions for the processes that start and supervise executors.

// Takes a slot for a process that the caller will then register. Returns nullptr if `at_most` slots are taken, or if
// the pool must wait because a process failed to start (kFailedRest).
ExecutorSlot *take_executor_slot(Oid database, Oid role, int at_most, TimestampTz now);
// Frees the slot. Call it if the process could not be registered.
void give_back_executor_slot(ExecutorSlot *slot);
int index_of_executor(const ExecutorSlot *slot);

// Frees the slots of processes that never attached, and the slots that have been in the state Failed for at least
// kFailedRest.
void tidy_executors(TimestampTz now);
// Copies all kMaxExecutors slots.
void read_executors(ExecutorSlot *copies);

// Records whether any handlers in the session's database are waiting for an executor.
void note_executor_wait(bool waits, TimestampTz now);
// Returns the number of databases that have been waiting for an executor longer than the session's database.
int databases_ahead(TimestampTz now);
// Wakes the background worker of the database that has been waiting longest for an executor, if any. Call it when a
// slot is free.
void call_longest_waiting(TimestampTz now);

// Asks an executor to exit after its current work. `generation` is the slot's generation in the copy on which the
// caller based its decision. Does nothing if the slot has been reused in the meantime.
void ask_executor_to_leave(int index, uint32 generation, TimestampTz now);
// Interrupts the executor as pg_cancel_backend() would. Does nothing if the executor no longer works on the job with
// this lease.
void interrupt_executor(int index, int64 lease, TimestampTz now);
// Terminates the executor as pg_terminate_backend() would. Does nothing if the executor no longer works on the job with
// this lease.
void terminate_executor(int index, int64 lease);

// Makes the waiting executors of a database exit, so that a command such as DROP DATABASE, which fails while sessions
// are connected, can succeed. If `hard` is true, also terminates the executors that are running jobs. Returns whether
// the database has any executor.
bool send_executors_away(Oid database, bool hard);

// ---- Functions for the duty that searches for leases without an executor.

// Returns whether a living executor of the session's database has this lease on the job.
bool executor_holds(int64 job, int64 lease);
// Copies the leases of the exited executors of the session's database, and returns the number of these leases, at most
// 2 * kMaxExecutors.
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
// Returns whether the last shutdown of the server was clean. In a clean shutdown, the executors are asked to exit, so a
// job is not suspected of having caused its executor to exit.
bool last_shutdown_was_clean();

// ---- Functions for the executor itself.

// Attaches this process to its slot. Returns false if the slot has been freed in the meantime.
bool enter_executor_slot(int index, uint32 generation);
const ExecutorSlot *own_executor_slot();
// Marks the executor as waiting for a job.
void executor_is_ready();
// Records in the slot that this executor claims jobs for the handler. Returns false if `at_most` executors already
// claim jobs for this handler. If `handler` is 0, records that this executor no longer claims jobs.
bool take_handler_place(uint64 handler, int at_most);
// Records the lease of a claimed job in the slot. Call it after the claim, before the transaction that contains the
// claim ends.
void note_next_lease(int64 job, int64 lease);
// Makes the next lease the current lease. Call it after the transaction that claimed the next job has ended. The same
// transaction might have ended the previous job.
void begin_next_lease();
// Records that the handler has begun the job. If the process exits after this, the job might be the cause.
void lease_has_begun();
void drop_next_lease();
// Removes the lease from the slot. Call it after the end or release of the job has committed.
void end_lease_of_executor();
// Records that the handler itself has ended the job with this lease.
void note_own_report(int64 lease);

// ---- Functions that a commit calls.

// Returns the bit of a queue in DatabaseState::handler_queues.
uint64 handler_bit(const char *queue);
// Wakes the executors that are waiting in a database. Call it when there might be jobs for the handlers in that
// database. Also wakes the background worker if it has requested a wake-up (DatabaseState::executors_wanted).
void call_executors(DatabaseState *db);
// Wakes only the background worker, if it has requested a wake-up. An executor that has found a job calls this
// function.
void call_supervisor_if_wanted();
// Wakes the background worker of a database so that it checks its executors.
void call_supervisor(DatabaseState *db);

// main/jobq.cpp calls these functions to set up the executors in shared memory.
Size executors_size();
void make_executors(void *memory, bool fresh);
SharedUsage executors_usage();

}  // namespace jobq
