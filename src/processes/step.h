// One step of a worker: a duty, the planning of the next round or a look after the executors, in a transaction of its
// own, with the rights of the extension's owner. An error is recorded in the state of the database; it ends no more
// than the step. Who may call it: round.cpp and recount.cpp.
#pragma once

#include "compat/pg.h"
#include "duties/tick.h"
#include "processes/extension.h"
#include "shmem/database_state.h"

namespace jobq {

enum class StepOutcome { Done, Failed, NoExtension, Skipped, Rests };

// One transaction. Lives in the caller's frame, because a longjmp leaves the values of locals undefined.
struct Step {
    int index;  // of the duty, or kPlanStep
    TimestampTz now;
    TimestampTz grace;
    StepOutcome outcome;
    bool apart;     // in the process that only counts the table
    bool too_long;  // the duty was left to that process
    DutyOutcome duty;
    bool failed_before;  // and nothing has been said of its end
    bool fails_still;    // though it has left out nothing
    Rest rest;
    TimestampTz deadline;
    bool in_use;
    InstalledExtension extension;
};

// A pass over the whole table.
bool is_recount(int index);

// `apart`: in the process that only counts the table.
void prepare_step(Step *step, int index, bool apart = false);

// Runs a prepared step; what has come of it stands there afterwards. Raises no error but FATAL. The current memory
// context is `memory` afterwards.
void run_step(DatabaseState *db, Step *step, MemoryContext memory);

// What has failed last, if it was this step, works again. Lock of the database states held.
void show_end_of_error(DatabaseState *db, int index, TimestampTz now);

}  // namespace jobq
