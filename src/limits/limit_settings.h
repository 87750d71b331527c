// jobq.limit_settings, and jobs that run without the slots they should hold. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

#include <string_view>

namespace jobq {

// NULL parts: none.
struct LimitValues {
    bool has_max_running, has_rate;
    int32 max_running, rate;
    Interval *per;
};
// `key` empty: the whole queue. Gives running jobs of the queue their slots.
void set_limit(text *queue, text *key, const LimitValues &values);
// False when there was none.
bool remove_limit(text *queue, text *key);

// A job as somebody's own statement leaves it, or found it.
struct SlotRow {
    int64 id;
    std::string_view queue;
    std::string_view key;  // empty: none
    bool running;
    int64 queue_slot, key_slot;  // 0: none
};
// Whether a job keeps its slots in an UPDATE by hand. One that does not run any more, or for another queue or key,
// leaves them.
bool keeps_slots(const SlotRow &before, const SlotRow &after);
// After such an UPDATE.
void follow_slots(const SlotRow &before, const SlotRow &after);
// A job that runs, and came with an INSERT by hand.
void expect_slots(const SlotRow &job);
// Limits were changed by hand: nobody knows which jobs hold slots of them.
void distrust_limits();
// Running jobs may lack slots that they should hold: the tick looks for them.
void look_for_unslotted();

// How many jobs run under the limit of the queue (`key` nullptr), of the key, or of the keys without one of their own.
int64 running_under(text *queue, text *key);

// What look_for_unslotted asked for: gives jobs their slots, leaving out those that cannot be changed.
void settle_slots(TimestampTz now, DutyOutcome *outcome);

}  // namespace jobq
