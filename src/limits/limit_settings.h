// Reads and writes jobq.limit_settings, and gives slots to running jobs that lack them. Call these functions inside
// with_spi().
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

#include <string_view>

namespace jobq {

// has_... is false if the limit has no such part.
struct LimitValues {
    bool has_max_running, has_rate;
    int32 max_running, rate;
    Interval *per;
};
// Sets the limit of a key or, if `key` is empty, of the whole queue. Gives running jobs of the queue the slots that
// they lack.
void set_limit(text *queue, text *key, const LimitValues &values);
// Returns false if there was no such limit.
bool remove_limit(text *queue, text *key);

// A job before or after a plain SQL statement.
struct SlotRow {
    int64 id;
    std::string_view queue;
    std::string_view key;  // empty: none
    bool running;
    int64 queue_slot, key_slot;  // 0: none
};
// Returns whether a job keeps its slots in a plain SQL UPDATE. A job that stops running, or changes its queue or key,
// gives up its slots.
bool keeps_slots(const SlotRow &before, const SlotRow &after);
// Call it after such an UPDATE. Makes the tick give the job the slots that it lacks.
void follow_slots(const SlotRow &before, const SlotRow &after);
// Does the same for a running job that a plain SQL INSERT has added.
void expect_slots(const SlotRow &job);
// Call it after a plain SQL change of jobq.limit_settings: it is no longer known which jobs hold slots of the limits.
void distrust_limits();
// Makes the tick look for running jobs that lack slots.
void look_for_unslotted();

// Returns how many jobs run under the limit of the queue (`key` nullptr), of the key, or ("*") of all keys without a
// limit of their own.
int64 running_under(text *queue, text *key);

// The tick's part of look_for_unslotted(): gives jobs their slots, and skips the jobs that cannot be changed.
void settle_slots(TimestampTz now, DutyOutcome *outcome);

}  // namespace jobq
