// The steps that a worker runs promptly instead of leaving them to the next round: unblocking jobs and supervising
// executors. After a step, the current memory context is `memory`. Only round.cpp and worker.cpp may call these
// functions.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Maximum number of batches that each duty runs per round. Afterward, the next round is planned, and the worker of
// another database can get the process slot of this worker.
constexpr int kPassesPerRound = 10;

// Returns whether the worker must stop before the next step, because a command such as DROP DATABASE requires that no
// session is connected to the database, or because the process must exit.
inline bool interrupted(const DatabaseState *db) { return must_make_room(db) || ProcDiePending; }

// Promotes blocked jobs that commits have unblocked. The promotion runs in separate transactions. Call this function
// when a commit wakes up the worker and between the steps of a round, because these jobs must not wait for the next
// round. Returns the time at which to call the function again, or kNothingDue if the next call is only necessary when a
// commit wakes up the worker.
TimestampTz run_unblocking(DatabaseState *db, MemoryContext memory);

// Supervises the executors if a commit or an executor has requested supervision. Returns the time at which to call the
// function again, or kNothingDue if the next call is only necessary when a commit wakes up the worker.
TimestampTz run_supervision(DatabaseState *db, MemoryContext memory);

}  // namespace jobq
