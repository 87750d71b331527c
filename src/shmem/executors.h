// The executors in shared memory: processes that run handlers (handlers/README.md), with one slot each. The slots are
// authoritative for the leases of executors: such a lease has no clock (core::kEndlessLease in the row) and is valid as
// long as the slot of a living process contains it. Therefore
//
// * an executor writes the lease into its slot before the claim commits, and removes it after the job's end has
// committed;
// * a search for leases without an executor reads the rows first and the slots afterwards;
// * a slot whose process has exited keeps its leases until a session has seen in the table that they have ended;
// * after a crash, a restart, or a promotion there are no slots, so none of these leases is held.
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
    Starting,  // the process is registered
    Idle,      // the process looks for a job or waits for one
    Busy,
    Ended,   // the process has exited and had a lease
    Failed,  // the process has exited before it could begin; no process is started again at once
};

// A lease; 0: no lease.
struct ExecutorLease {
    int64 job;
    int64 lease;
};

struct ExecutorSlot {
    ExecutorState state;
    Oid database, role;
    uint32 generation;  // incremented each time the slot is taken
    int pid;            // 0: the process has not attached yet, or has exited
    PGPROC *proc;
    bool leave;            // the process must exit after its current work
    TimestampTz asked_at;  // when the process was asked to exit
    bool terminated;       // the process was terminated, through no fault of its job
    uint64 handler;        // core::handler_hash() of the handler whose jobs it asks for; 0: none
    // `next` was claimed by a transaction that may not have committed yet.
    ExecutorLease now, next;
    bool begun;         // the process has begun the job of `now`
    bool reported;      // the handler has ended the job itself
    int64 interrupted;  // the lease under which the process was last interrupted
    TimestampTz interrupted_at;
    TimestampTz since;  // when the slot entered its state
    TimestampTz started_at;
};

// How long a pool starts no process after one that could not begin.
constexpr core::Micros kFailedRest = 5 * core::kSecond;

// ---- Functions for the processes that start and supervise executors.

// Takes a slot for a process that will be registered; returns nullptr if `at_most` slots are taken or the pool rests.
ExecutorSlot *take_executor_slot(Oid database, Oid role, int at_most, TimestampTz now);
// Returns the slot, because the process could not be registered.
void give_back_executor_slot(ExecutorSlot *slot);
int index_of_executor(const ExecutorSlot *slot);

// Frees the slots of processes that never attached, and of failures whose rest is over.
void tidy_executors(TimestampTz now);
// Copies all kMaxExecutors slots.
void read_executors(ExecutorSlot *copies);

// Notes whether handlers of the session's database wait for an executor.
void note_executor_wait(bool waits, TimestampTz now);
// Returns the number of databases that have waited longer for an executor.
int databases_ahead(TimestampTz now);
// Calls the worker of the database that has waited longest, if any, because a slot is free.
void call_longest_waiting(TimestampTz now);

// Asks an executor to exit after its current work. `generation` comes from the copy on which the decision was based.
void ask_executor_to_leave(int index, uint32 generation, TimestampTz now);
// Interrupts the executor's work under the lease, as pg_cancel_backend() would, unless it already does something else.
void interrupt_executor(int index, int64 lease, TimestampTz now);
// Ends the process, as pg_terminate_backend() would, unless it already does something else.
void terminate_executor(int index, int64 lease);

// Wakes the waiting executors of a database so that they exit, because a session needs the database for itself. With
// `hard`, also terminates the others. Returns whether the database has any executor.
bool send_executors_away(Oid database, bool hard);

// ---- Functions for the duty that looks for leases without a holder.

// Returns whether a living executor of the session's database has the lease.
bool executor_holds(int64 job, int64 lease);
// Copies the leases of exited executors of the session's database, at most 2 * kMaxExecutors; returns their number.
struct EndedLease {
    ExecutorLease lease;
    bool blameless;  // the executor was asked to exit, or had not begun the job
    int slot;
    uint32 generation;
    TimestampTz ended_at;  // when the process ended
};
int ended_executors(EndedLease *leases);
// Frees the slot when the lease has ended in the table.
void forget_ended_executor(const EndedLease &ended);
// Frees the slots of exited executors of a database that was dropped or whose extension was dropped.
void forget_executors_of(Oid database);
// Returns whether the last shutdown of the server was clean, so that executors were told to exit.
bool last_shutdown_was_clean();

// ---- Functions for the executor itself.

// Attaches to its slot. Returns false if the slot has been given up in the meantime.
bool enter_executor_slot(int index, uint32 generation);
const ExecutorSlot *own_executor_slot();
// Marks the executor as waiting for a job.
void executor_is_ready();
// Reserves one of at most `at_most` places for executors that ask for jobs of a handler; returns false if none is free.
// `handler` 0: it asks for no jobs.
bool take_handler_place(uint64 handler, int at_most);
// Notes a lease after a job is claimed and before the transaction ends.
void note_next_lease(int64 job, int64 lease);
// Makes the next lease the current one, after the transaction that claimed it, and may have ended the previous one, has
// ended.
void begin_next_lease();
// Notes that from now on the job may be the reason why the process ends.
void lease_has_begun();
void drop_next_lease();
// Removes the lease after the end or release of the job has committed.
void end_lease_of_executor();
// Notes that the handler has ended the job itself, under this lease.
void note_own_report(int64 lease);

// ---- Functions that a commit calls.

// Returns the bit of a queue in DatabaseState::handler_queues.
uint64 handler_bit(const char *queue);
// Wakes the executors that wait in a database, because there may be jobs for its handlers, and the worker if it wants
// to be notified.
void call_executors(DatabaseState *db);
// Does the same for the worker only, from an executor that has found a job.
void call_supervisor_if_wanted();
// Calls the worker of a database to supervise its executors.
void call_supervisor(DatabaseState *db);

// Sets up the executors in shared memory, for main/jobq.cpp.
Size executors_size();
void make_executors(void *memory, bool fresh);
SharedUsage executors_usage();

}  // namespace jobq
