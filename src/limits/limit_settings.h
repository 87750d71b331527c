// Reads and writes jobq.limit_settings, and assigns slots to running jobs that have none although a limit applies to
// them. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

#include <string_view>

namespace jobq {

// The parts of a limit. has_max_running or has_rate is false if the limit does not have that part.
struct LimitValues {
    bool has_max_running, has_rate;
    int32 max_running, rate;
    Interval *per;
};
// Sets the limit of a key or, if `key` is empty, of the whole queue. Assigns slots of the limit to the jobs of the
// queue that are already running.
void set_limit(text *queue, text *key, const LimitValues &values);
// Removes the limit. Returns false if it did not exist.
bool remove_limit(text *queue, text *key);

// The columns of a job that determine which slots it needs, before or after a plain SQL statement changed the job.
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
// Makes the next tick assign slots to the job if it needs some that it does not hold. Call it after a plain SQL UPDATE.
void follow_slots(const SlotRow &before, const SlotRow &after);
// Makes the next tick assign slots to the job if it is running. Call it after a plain SQL INSERT.
void expect_slots(const SlotRow &job);
// Makes claims and the next tick check which jobs hold slots, because this is unknown after a plain SQL change to
// jobq.limit_settings. Call it after such a change.
void distrust_limits();
// Makes the next tick search for running jobs that need slots and do not hold them.
void look_for_unslotted();

// Returns how many jobs run under a limit: the limit of the queue if `key` is nullptr, the limit for keys without a
// limit of their own if `key` is "*", and otherwise the limit of that key.
int64 running_under(text *queue, text *key);

// Assigns slots to running jobs that need them, if look_for_unslotted() has requested it. Called by the tick. Skips
// jobs that cannot be changed.
void settle_slots(TimestampTz now, DutyOutcome *outcome);

}  // namespace jobq
