// A step of a worker: a duty, the planning of the next round, or the supervision of the executors. Each step runs in a
// separate transaction, with the privileges of the extension's owner. An error ends only the step, and is recorded in
// the state of the database. Only round.cpp, prompt_steps.cpp, and recount.cpp may call these functions.
#pragma once

#include "compat/pg.h"
#include "duties/tick.h"
#include "processes/extension.h"
#include "shmem/database_state.h"

namespace jobq {

enum class StepOutcome { Done, Failed, NoExtension, Skipped, Rests };

// One step, which runs in one transaction. The caller owns the object, because a longjmp in the step leaves local
// variables undefined.
struct Step {
    int index;  // the number of the duty, or kPlanStep or kExecutorsStep
    TimestampTz now;
    TimestampTz grace;
    StepOutcome outcome;
    bool apart;     // the step runs in the separate process that counts the rows of jobq.jobs
    bool too_long;  // the count would take too long in the worker and is left to the separate process
    DutyOutcome duty;
    bool failed_before;  // an error was logged before, and its end has not been logged yet
    bool fails_still;    // the earlier error would occur again, although this batch has skipped no rows
    Rest rest;
    TimestampTz deadline;
    bool in_use;
    InstalledExtension extension;
};

// Returns whether the step is the duty "reconcile", which counts all rows of jobq.jobs.
bool is_recount(int index);

// Prepares a step. `apart` is true in the separate process that counts the rows of jobq.jobs (recount.h).
void prepare_step(Step *step, int index, bool apart = false);

// Runs a prepared step and writes the results to *step. Raises no error except FATAL. Afterward, the current memory
// context is `memory`.
void run_step(DatabaseState *db, Step *step, MemoryContext memory);

// Records that the last error no longer occurs, if it was an error in this step. The caller must hold the lock of the
// database states.
void show_end_of_error(DatabaseState *db, int index, TimestampTz now);

}  // namespace jobq
