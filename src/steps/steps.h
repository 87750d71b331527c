// Reads and writes jobq.steps. A session that saves a step has already written the job's row in the same transaction,
// under its lease, so two workers cannot save the same step. The job's row says whether the job has steps
// (Life::steps); if it has none, jobq.steps is not read.
//
// Unless noted otherwise, the functions are called inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "row/jobs_table.h"
#include "steps/step_policy.h"

#include <string_view>

namespace jobq {

// Returns whether any job may have steps. Costs next to nothing.
bool any_step();

// A name, and what the call says that it stands for.
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
// Returns the step with this name. Raises 22023 if the name stands for something else: another kind, another event, or
// other jobs.
SavedStep find_step(const JobsTable &jobs, int64 job, const StepUse &use);

struct NewStep {
    int64 job;
    int64 number;
    StepUse use;  // for Spawn with the children, which are also its result
    core::StepState state;
    core::OptInt64 until;
    int64 awaited;  // while the job waits: event_hash, or kAwaitsJobs; 0: none
    Datum result;   // jsonb
    bool has_result;
};
void add_step(const NewStep &step);
// arm_step() makes an existing step active, so that the job is unblocked when the signal or the jobs that this step
// awaits have come or ended. disarm_other_steps() makes the other steps of the job inactive, so that what they await no
// longer unblocks the job.
void arm_step(int64 job, text *name, int64 awaited);
void disarm_other_steps(int64 job, text *name);
// Makes the steps of these finished jobs inactive. If a job is retried and waits in a step again, that step becomes
// active again.
void disarm_steps(Datum *ids, int count);
// Saves the outcome of a wait in the step.
void decide_step(int64 job, text *name, core::StepState state, bool has_result, Datum result);

// Returns rows (job_id, name, state, result) of these jobs, ordered by job and number.
Rows read_steps(Datum jobs);
// Returns the number of a step, or 0 if there is no such step.
int64 number_of_step(int64 job, text *name);
// Deletes the steps with this number or a higher one. Returns the number of the last remaining step, or 0.
int64 drop_steps_from(int64 job, int64 number);

// Delete the steps and signals of deleted jobs, delete all steps and signals, or move the steps and signals of a job to
// its new id.
void delete_steps(Datum *ids, int count);
void delete_all_steps();
void move_steps(int64 from, int64 to);
// Deletes the steps of jobs that start from the beginning, but not their signals.
void drop_all_steps_of(Datum *ids, int count);

// Returns the entries of a job's log about its steps and signals: one row of arrays (at, event, detail), or no row.
Rows read_step_events(int64 job);
// Returns what a job awaits, for display: rows (kind, event, number of jobs).
Rows read_awaited(int64 job);

}  // namespace jobq
