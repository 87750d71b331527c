// One round of a worker: every duty in short transactions of its own, then the time of the next round.
// Who may call it: worker.cpp.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// What a round remembers of the one before, in the worker's own memory.
struct RoundState {
    MemoryContext context;  // reset after each round
    int stalled;            // rounds in a row that were due but found nothing they could do
    int64 unblocked;        // jobs that the log has told of
    TimestampTz supervised_at;
};

// False when the database does not have the extension (any more). Errors of single steps are recorded in the state and
// logged once; afterwards its next_due says when the next round is.
bool run_round(DatabaseState *db, RoundState *state);

// Promotes blocked jobs that commits have set free, in transactions of its own: at once, between the steps of a round
// too. Returns when to call it again; kNothingDue: when a commit wakes the worker.
TimestampTz run_unblocking(DatabaseState *db, RoundState *state);

// Looks after the executors, if somebody has called for that. Returns when to call it again; kNothingDue: when a commit
// wakes the worker.
TimestampTz run_supervision(DatabaseState *db, RoundState *state);

// The worker ends in the middle of a round: the round counts as not done. Safe while the process exits.
void give_up_round(DatabaseState *db);

// Why a worker shall go although rounds are due: it stands in somebody's way.
bool must_make_room(const DatabaseState *db);

}  // namespace jobq
