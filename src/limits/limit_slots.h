// Finds which running jobs hold the slots of limits, in jobs._queue_slot and jobs._key_slot.
//
// A claim locks a slot while it checks whether the slot is free and writes it into its own job. It never waits for the
// lock. It releases the lock after the write, because other sessions then see the index entry.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"
#include "row/jobs_table.h"

namespace jobq {

// What a job's slot belongs to, which determines its column and index.
enum class SlotOf { Queue, Key };
constexpr JobColumn column_of_slot(SlotOf of) { return of == SlotOf::Queue ? kJobQueueSlot : kJobKeySlot; }

// The slot indexes of an open table, opened when needed.
struct Slots {
    JobsTable *jobs;
    Relation indexes[2];
    TupleTableSlot *found;
};
void close_slots(Slots *slots);

// Locks the slot if it is free, and records that the current transaction has taken it. Returns false if the slot is not
// free or another session is taking it.
bool lock_free_slot(Slots *slots, SlotOf of, std::string_view queue, std::string_view key, int64 slot, TimestampTz now);
// Unlocks the slot after the job that has taken it has been written, or if it will not be written.
void unlock_slot(int64 slot);

// Returns whether a job seems to hold the slot. This is only a hint, because the slot is not locked.
bool seems_held(Slots *slots, SlotOf of, int64 slot);

// The numbers of the limit's slots that jobs hold, sorted without duplicates.
struct Numbers {
    int32 *items;
    int count;
};
Numbers held_numbers(Slots *slots, SlotOf of, int64 limit);

// Returns how many committed jobs run without a slot of the queue or the key; core::kEachKey means all keys without a
// limit of their own. Call it inside with_spi().
int64 running_without_slot(SlotOf of, std::string_view queue, std::string_view key);

}  // namespace jobq
