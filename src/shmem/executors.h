// The executors in shared memory: processes that run handlers (handlers/README.md), a slot each. What stands there is
// the truth about their leases: such a lease has no clock (core::kEndlessLease in the row), it lives while the slot of
// a living process has it. So
//
// * an executor writes the lease into its slot before the claim commits, and takes it out after the job's end has;
// * who looks for leases without an executor reads the rows first, and asks the slots afterwards;
// * a slot whose process has gone keeps its leases until somebody has seen in the table that they are no more;
// * after a crash, a restart or a promotion there are no slots: none of these leases is held by anybody.
#pragma once

#include "compat/pg.h"
#include "compat/settings.h"
#include "job/job_policy.h"
#include "shmem/database_state.h"

#include <string_view>

namespace jobq {

enum class ExecutorState : uint8 {
    Free,
    Starting,  // registered
    Idle,      // looks for a job, or waits for one
    Busy,
    Ended,   // its process has gone, and had a lease
    Failed,  // its process has gone before it could begin: nobody tries again at once
};

// A lease; 0: none.
struct ExecutorLease {
    int64 job;
    int64 lease;
};

struct ExecutorSlot {
    ExecutorState state;
    Oid database, role;
    uint32 generation;  // one more each time the slot is taken
    int pid;            // 0: not there yet, or gone
    PGPROC *proc;
    bool leave;               // it shall go when it has done what it has in hand
    TimestampTz asked_at;     // when it was told so
    bool told_to_go;          // it was ended, through no fault of its job
    uint64 handler;           // core::handler_hash() of that whose jobs it asks for, 0: none
    ExecutorLease now, next;  // `next`: claimed by a transaction that may not have committed yet
    bool begun;               // something has been done for the job of `now`
    bool reported;            // the handler has ended the job itself
    int64 interrupted;        // the lease under which it was last interrupted
    TimestampTz interrupted_at;
    TimestampTz since;  // when it came into its state
    TimestampTz started_at;
};

// How long a pool rests after one that could not begin.
constexpr core::Micros kFailedRest = 5 * core::kSecond;

// ---- for those who start executors and look after them

// Takes a slot for a process that is to be registered; nullptr when `at_most` of them are taken, or the pool rests.
ExecutorSlot *take_executor_slot(Oid database, Oid role, int at_most, TimestampTz now);
// Gives it back: it could not be registered.
void give_back_executor_slot(ExecutorSlot *slot);
int index_of_executor(const ExecutorSlot *slot);

// Frees the slots of processes that never came, and of failures that nobody need wait for any more.
void tidy_executors(TimestampTz now);
// Copies all slots; kMaxExecutors of them.
void read_executors(ExecutorSlot *copies);

// Notes whether handlers of the session's database wait for an executor.
void note_executor_wait(bool waits, TimestampTz now);
// Number of databases that have waited longer for one.
int databases_ahead(TimestampTz now);
// Calls the worker of the database that has waited longest, if any, because there is a place.
void call_longest_waiting(TimestampTz now);

// Asks one to go when it has done what it has in hand. `generation`: of the copy that the decision was made by.
void ask_executor_to_leave(int index, uint32 generation, TimestampTz now);
// Interrupts what it does under the lease, as pg_cancel_backend() would, unless it does something else by now.
void interrupt_executor(int index, int64 lease, TimestampTz now);
// Ends the process, as pg_terminate_backend() would, unless it does something else by now.
void terminate_executor(int index, int64 lease);

// For who needs a database for itself: wakes those who wait there, so that they see it and go; ends the others when
// `hard`. Whether any is there.
bool send_executors_away(Oid database, bool hard);

// ---- for the duty that looks for leases nobody holds

// Whether an executor of the session's database that lives has the lease.
bool executor_holds(int64 job, int64 lease);
// The leases of those of the session's database that have gone; at most 2 * kMaxExecutors. Returns how many.
struct EndedLease {
    ExecutorLease lease;
    bool blameless;  // its executor was told to go, or had not begun with the job
    int slot;
    uint32 generation;
    TimestampTz ended_at;  // when its process has
};
int ended_executors(EndedLease *leases);
// Its leases are no more: the slot is free.
void forget_ended_executor(const EndedLease &ended);
// The database, or the extension there, is no more: so is what executors have left behind.
void forget_executors_of(Oid database);
// Whether the server was shut down in order before it was started: executors were told to go then.
bool executors_were_told_to_go();

// ---- for the executor itself

// Enters its own slot. False: it has been given up meanwhile.
bool enter_executor_slot(int index, uint32 generation);
const ExecutorSlot *own_executor_slot();
// From now on it counts as waiting for a job.
void executor_is_ready();
// Takes a place among those that ask for jobs of a handler, at most `at_most`; false: there is none. `handler` 0: it
// asks for none.
bool take_handler_place(uint64 handler, int at_most);
// A job is claimed, the transaction goes on.
void note_next_lease(int64 job, int64 lease);
// The transaction that claims it, and may have ended the one before, has committed; or has not.
void begin_next_lease();
// From now on the job may be what ends the process.
void lease_has_begun();
void drop_next_lease();
// The job has ended, or was given up, and that has committed.
void end_lease_of_executor();
// Under the lease the handler has ended the job itself.
void note_own_report(int64 lease);

// ---- for commits

// What stands for a queue in DatabaseState::handler_queues.
uint64 handler_bit(const char *queue);
// There may be jobs for handlers of a database: wakes the executors that wait there, and the worker if it wants to
// know.
void call_executors(DatabaseState *db);
// The same by an executor that has found a job.
void call_supervisor_if_wanted();
// Something is to be done about the executors of a database: calls its worker.
void call_supervisor(DatabaseState *db);

// For main/jobq.cpp: its part of the shared memory.
Size executors_size();
void make_executors(void *memory, bool fresh);

}  // namespace jobq
