// A round of a worker: runs each duty in short transactions and then determines when the next round is due. Only
// worker.cpp may call these functions.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// The state that a worker keeps in its own memory from one round to the next.
struct RoundState {
    MemoryContext context;  // reset after each round
    int stalled;            // number of consecutive rounds that were due but could not do anything
    int64 unblocked;        // number of unblocked jobs that have been logged so far
};

// Runs a round. Returns false if the database does not have the extension. Records errors in the state of the database,
// and logs each error once. Sets next_due in this state to the time of the next round.
bool run_round(DatabaseState *db, RoundState *state);

// Ends an interrupted round and makes another round due, which repeats the work of the interrupted round. Can be called
// while the process exits.
void give_up_round(DatabaseState *db);

}  // namespace jobq
