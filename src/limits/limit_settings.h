// Reads and writes jobq.limit_settings and jobq.named_limit_settings, and gives slots to running jobs that have none
// although a limit applies to them. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"
#include "limits/limit_slots.h"
#include "queues/scope.h"
#include "row/limit_names.h"

#include <string_view>

namespace jobq {

// The parts of a limit, each of which is optional: has_max_running or has_rate is false if the limit lacks that part.
struct LimitValues {
    bool has_max_running, has_rate;
    int32 max_running, rate;
    Interval *per;
};
// The limit of a queue, of one of its concurrency keys, or of one of its kinds, or a named limit.
struct LimitName {
    text *queue;  // empty for a named limit
    SlotOf of;
    text *name;  // the key, the kind, or the name of the limit; empty for the limit of the queue
};
// Sets the limit. Gives slots of the limit to the queue's jobs that are already running.
void set_limit(const LimitName &limit, const LimitValues &values);
// Removes the limit. Returns false if there was no such limit.
bool remove_limit(const LimitName &limit);

// These functions set and remove a named limit as set_limit() and remove_limit() do. They raise 42501 if a queue that
// shares the limit so far is out of scope.
void set_named_limit(text *name, const Names &queues, const LimitValues &values, const QueueScope *scope);
bool remove_named_limit(text *name, const QueueScope *scope);

// The columns of a job that determine which slots the job needs, before or after plain SQL has changed the job.
struct SlotRow {
    int64 id;
    std::string_view queue;
    std::string_view key;  // empty if the job has no concurrency key
    std::string_view kind;
    LimitNames limits;
    bool running;
    int64 slots[kSlotsOf];  // 0 if the job holds no such slot
};
// Returns whether a job keeps its slots when a plain SQL UPDATE changes it. A job loses its slots if it stops running
// or if its queue or key changes, if its kind changes while it holds a slot under the limit of the kind, and if its
// named limits change while it holds a slot under one of them.
bool keeps_slots(const SlotRow &before, const SlotRow &after);
// Makes the next tick give slots to the job if the job needs slots that it does not hold. Call it after a plain SQL
// UPDATE.
void follow_slots(const SlotRow &before, const SlotRow &after);
// Makes the next tick give slots to the job if it is running. Call it after a plain SQL INSERT.
void expect_slots(const SlotRow &job);
// Causes claims and the next tick to check which jobs hold slots. Call it after jobq.limit_settings was changed with
// plain SQL, because it is then unknown whether all running jobs hold the slots that they need.
void distrust_limits();

// Returns the number of jobs that run under a limit. If the name of the limit is "*", counts the jobs of all keys or
// kinds without a limit of their own.
int64 running_under(const LimitName &limit);

// Gives slots to running jobs that need them, if this has been requested. Skips jobs that cannot be changed. The tick
// calls this function.
void settle_slots(TimestampTz now, DutyOutcome *outcome);

}  // namespace jobq
