// Who holds the slots of limits: running jobs, in jobs._queue_slot and jobs._key_slot.
//
// A claim locks a slot for as long as it takes to look whether it is free and to write its own job into it. It never
// waits for the lock, and does not keep it: from then on others see the entry.
#pragma once

#include "compat/pg.h"
#include "job/jobs_table.h"
#include "limits/limit_policy.h"

namespace jobq {

// Of what a job's slot is: the column it stands in, and the index on that.
enum class SlotOf { Queue, Key };
constexpr JobColumn column_of_slot(SlotOf of) { return of == SlotOf::Queue ? kJobQueueSlot : kJobKeySlot; }

// The indexes of slots of an open table, opened when needed.
struct Slots {
    JobsTable *jobs;
    Relation indexes[2];
    TupleTableSlot *found;
};
void close_slots(Slots *slots);

// Locks the slot if it is free; false: it is not, or somebody else is just taking it. The current transaction is held
// to have taken it from here on.
bool lock_free_slot(Slots *slots, SlotOf of, std::string_view queue, std::string_view key, int64 slot, TimestampTz now);
// For when the job that has taken the slot is written, or will not be.
void unlock_slot(int64 slot);

// Whether a job seems to hold the slot. An answer to choose by, since the slot is not locked.
bool seems_held(Slots *slots, SlotOf of, int64 slot);

// The numbers of the limit's slots that jobs hold, ascending and different.
struct Numbers {
    int32 *items;
    int count;
};
Numbers held_numbers(Slots *slots, SlotOf of, int64 limit);

// How many jobs run without a slot, as far as that is committed: of the queue, or of the key; core::kEachKey: of all
// keys that have no limit of their own. Inside with_spi().
int64 running_without_slot(SlotOf of, std::string_view queue, std::string_view key);

}  // namespace jobq
