// A step of a worker: a duty, the planning of the next round, or the supervision of the executors. Each step runs in
// its own transaction, with the rights of the extension's owner. An error ends only the step, and is recorded in the
// state of the database. Only round.cpp and recount.cpp may call this.
#pragma once

#include "compat/pg.h"
#include "duties/tick.h"
#include "processes/extension.h"
#include "shmem/database_state.h"

namespace jobq {

enum class StepOutcome { Done, Failed, NoExtension, Skipped, Rests };

// One step, which runs in one transaction. The caller owns the object, because a longjmp leaves the values of local
// variables undefined.
struct Step {
    int index;  // the number of the duty, kPlanStep, or kExecutorsStep
    TimestampTz now;
    TimestampTz grace;
    StepOutcome outcome;
    bool apart;     // runs in the separate process that counts the table
    bool too_long;  // the count would take so long that it is left to the separate process
    DutyOutcome duty;
    bool failed_before;  // an earlier error was logged, and its end has not been logged
    bool fails_still;    // the earlier error would occur again, although this batch has skipped no rows
    Rest rest;
    TimestampTz deadline;
    bool in_use;
    InstalledExtension extension;
};

// Returns whether this is the duty that counts the whole table.
bool is_recount(int index);

// Prepares a step. `apart` is true in the separate process that counts the table (recount.h).
void prepare_step(Step *step, int index, bool apart = false);

// Runs a prepared step and writes the results to *step. Raises no error except FATAL. Afterward, the current memory
// context is `memory`.
void run_step(DatabaseState *db, Step *step, MemoryContext memory);

// Records that the last error has ended, if it was an error of this step. The caller must hold the lock of the database
// states.
void show_end_of_error(DatabaseState *db, int index, TimestampTz now);

}  // namespace jobq
