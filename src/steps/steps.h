// The rows of jobq.steps. Whoever saves one has written the job's row in the same transaction, under its lease: that
// keeps two workers from saving the same step. The row says that there are some (Life::steps); where it does not,
// nobody looks here.
//
// All of it inside with_spi(), with the owner's rights, but for what says otherwise.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "row/jobs_table.h"
#include "steps/step_policy.h"

#include <string_view>

namespace jobq {

// Returns whether any job may have steps. Costs next to nothing.
bool any_step();

// What a name stands for.
struct StepUse {
    text *name;
    core::StepKind kind;
    text *event;      // kind Event
    ArrayType *jobs;  // kinds All and Any: bigint[]
};

// One that is there, read as the rows of the open table are: `found` false, there is none of that name. The datums
// live as long as the memory of SPI.
struct SavedStep {
    bool found;
    core::StepState state;
    core::Maybe until;
    Datum result;  // jsonb
    bool has_result;
    ArrayType *jobs;  // bigint[]: of Spawn the children, of All and Any those that it awaits
};
// 22023 when the name stands for something else: another kind, another event, other jobs.
SavedStep find_step(const JobsTable &jobs, int64 job, const StepUse &use);

struct NewStep {
    int64 job;
    int64 number;
    StepUse use;  // of Spawn with the children; its result says them, too
    core::StepState state;
    core::Maybe until;
    int64 awaited;  // while it waits: event_hash, or kAwaitsJobs; 0: none
    Datum result;   // jsonb
    bool has_result;
};
void add_step(const NewStep &step);
// The job waits by this step, which is there, and by no other any more: what it has ceased to await shall not wake it.
void arm_step(int64 job, text *name, int64 awaited);
void disarm_other_steps(int64 job, text *name);
// These jobs have finished: what they await concerns them no longer, but when they are retried and wait again.
void disarm_steps(Datum *ids, int count);
// A wait is over.
void decide_step(int64 job, text *name, core::StepState state, bool has_result, Datum result);

// Rows (job_id, name, state, result) of these jobs, by job and number.
Rows read_steps(Datum jobs);
// The number of a step; 0: there is none.
int64 number_of_step(int64 job, text *name);
// Those with this number and higher ones. Returns the number of the last that is left, 0: none.
int64 drop_steps_from(int64 job, int64 number);

// Of jobs that are gone, and what signals they had; of all; of a job that gets another id.
void delete_steps(Datum *ids, int count);
void delete_all_steps();
void move_steps(int64 from, int64 to);
// Of jobs that start anew: their signals stay.
void drop_all_steps_of(Datum *ids, int count);

// What the log of a job says of its steps and signals: one row of arrays (at, event, detail), or none.
Rows read_step_events(int64 job);
// What a job awaits, for people: (kind, event, how many jobs); no row when it awaits nothing.
Rows read_awaited(int64 job);

}  // namespace jobq
