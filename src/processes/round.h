// A round of a worker: runs each duty in short transactions and then determines the time of the next round. Only
// worker.cpp may call this.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// State that a worker keeps from one round to the next, in its own memory.
struct RoundState {
    MemoryContext context;  // reset after each round
    int stalled;            // number of consecutive rounds that were due and could do nothing
    int64 unblocked;        // number of unblocked jobs that have been logged
    TimestampTz supervised_at;
    int64 supervision_gap;  // microseconds until the next supervision while max_worker_processes leaves no room
};

// Runs a round. Returns false if the database does not have the extension. Records the errors of a step in the state of
// the database and logs them once. Sets next_due in that state to the time of the next round.
bool run_round(DatabaseState *db, RoundState *state);

// Promotes blocked jobs that commits have unblocked, in separate transactions. Must be called when a commit wakes up
// the worker and between the steps of a round, because such jobs must not wait for the next round. Returns when to call
// it again, or kNothingDue to wait until a commit wakes up the worker.
TimestampTz run_unblocking(DatabaseState *db, RoundState *state);

// Supervises the executors, if a commit or an executor has requested it. Returns when to call it again, or kNothingDue
// to wait until a commit wakes up the worker.
TimestampTz run_supervision(DatabaseState *db, RoundState *state);

// Ends a round that was interrupted, and makes a round due, so that the work is done again. Safe while the process
// exits.
void give_up_round(DatabaseState *db);

// Returns whether the worker must exit although rounds are due, because a command needs the database without sessions.
bool must_make_room(const DatabaseState *db);

}  // namespace jobq
