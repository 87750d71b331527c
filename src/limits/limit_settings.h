// Reads and writes jobq.limit_settings, and gives slots to running jobs that have none although a limit applies to
// them. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

#include <string_view>

namespace jobq {

// The parts of a limit, each of which is optional: has_max_running or has_rate is false if the limit lacks that part.
struct LimitValues {
    bool has_max_running, has_rate;
    int32 max_running, rate;
    Interval *per;
};
// Sets the limit of a key or, if `key` is empty, of the whole queue. Gives slots of the limit to the queue's jobs that
// are already running.
void set_limit(text *queue, text *key, const LimitValues &values);
// Removes the limit of the key or, if `key` is empty, of the whole queue. Returns false if there was no such limit.
bool remove_limit(text *queue, text *key);

// The columns of a job that determine which slots the job needs, before or after plain SQL has changed the job.
struct SlotRow {
    int64 id;
    std::string_view queue;
    std::string_view key;  // empty if the job has no concurrency key
    bool running;
    int64 queue_slot, key_slot;  // 0 if the job holds no such slot
};
// Returns whether a job keeps its slots when a plain SQL UPDATE changes it. A job loses its slots if it stops running
// or if its queue or key changes.
bool keeps_slots(const SlotRow &before, const SlotRow &after);
// Makes the next tick give slots to the job if the job needs slots that it does not hold. Call it after a plain SQL
// UPDATE.
void follow_slots(const SlotRow &before, const SlotRow &after);
// Makes the next tick give slots to the job if it is running. Call it after a plain SQL INSERT.
void expect_slots(const SlotRow &job);
// Causes claims and the next tick to check which jobs hold slots. Call it after jobq.limit_settings was changed with
// plain SQL, because it is then unknown whether all running jobs hold the slots that they need.
void distrust_limits();

// Returns the number of jobs that run under a limit. `key` selects the limit: nullptr means the limit of the queue, "*"
// means the limit for keys without a limit of their own, and any other key means the limit of that key.
int64 running_under(text *queue, text *key);

// Gives slots to running jobs that need them, if this has been requested. Skips jobs that cannot be changed. The tick
// calls this function.
void settle_slots(TimestampTz now, DutyOutcome *outcome);

}  // namespace jobq
