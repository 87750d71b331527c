// Reads and writes jobq.steps. A session that saves a step has already written the job's row in the same transaction,
// under the job's lease, so two workers cannot save the same step. The job's row says whether the job has steps
// (Life::steps); if the job has no steps, jobq.steps is not read.
//
// Unless noted otherwise, call the functions inside with_spi(), with the owner's privileges.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "row/jobs_table.h"
#include "steps/step_policy.h"

#include <string_view>

namespace jobq {

// Returns whether any job might have steps. Costs almost nothing.
bool any_step();

// The name of a step, and what the caller uses the name for.
struct StepUse {
    text *name;
    core::StepKind kind;
    text *event;      // kind Event
    ArrayType *jobs;  // kinds All and Any: bigint[]
};

// A step that was read under the snapshot of the open table. `found` is false if the job has no step of that name. The
// datums are in SPI's memory context.
struct SavedStep {
    bool found;
    core::StepState state;
    core::OptInt64 until;
    Datum result;  // jsonb
    bool has_result;
    ArrayType *jobs;  // bigint[]: for Spawn the children, for All and Any the awaited jobs
};
// Returns the step with this name. Raises 22023 if the job has used the name for something else: a different kind,
// event, or list of jobs.
SavedStep find_step(const JobsTable &jobs, int64 job, const StepUse &use);

struct NewStep {
    int64 job;
    int64 number;
    StepUse use;  // for Spawn with the children, which are also its result
    core::StepState state;
    core::OptInt64 until = {};
    text *awaited = nullptr;  // see the column _awaited of jobq.steps
    Datum result = 0;         // jsonb
    bool has_result = false;
};
void add_step(const NewStep &step);
// arm_step() makes an existing step active, so that the job is unblocked when the signal that the step awaits has come
// or the jobs that it awaits have ended. disarm_other_steps() makes the other steps of the job inactive, so that what
// those steps await no longer unblocks the job.
void arm_step(int64 job, text *name, text *awaited);
void disarm_other_steps(int64 job, text *name);
// Makes the steps of these finished jobs inactive. If a job is retried and waits in one of these steps again, the step
// becomes active again.
void disarm_steps(Datum *ids, int count);
// Saves the outcome of a wait in the step.
void decide_step(int64 job, text *name, core::StepState state, bool has_result, Datum result);

// Returns the steps of these jobs, ordered by job and number, with the columns job_id, name, state, and result.
Rows read_steps(Datum jobs);
// Returns the number of a step. Raises 22023 if the job has no such step.
int64 require_step(int64 job, text *name);
// Deletes the steps with this number or a higher number. Returns the number of the last remaining step, or 0 if no step
// remains.
int64 drop_steps_from(int64 job, int64 number);

// last_ended_step() returns the highest number below `end` of a step that is not an open wait, or no value if there is
// no such step. copy_ended_steps() copies these steps to another job, which has no steps yet.
core::OptInt64 last_ended_step(int64 job, int64 end);
void copy_ended_steps(int64 from, int64 to, int64 end);

// delete_steps() deletes the steps and signals of deleted jobs, delete_all_steps() deletes all steps and signals, and
// move_steps() moves the steps and signals of a job to the job's new id.
void delete_steps(Datum *ids, int count);
void delete_all_steps();
void move_steps(int64 from, int64 to);
// Deletes the steps, but not the signals, of jobs that start over from the beginning.
void drop_all_steps_of(Datum *ids, int count);

// Returns the entries about steps and signals in a job's log. The result is one row with three arrays (the columns at,
// event, and detail), or no row.
Rows read_step_events(int64 job);
// Returns what a job awaits, for display. The columns of the result are the kind, the event, and the number of jobs.
Rows read_awaited(int64 job);

}  // namespace jobq
