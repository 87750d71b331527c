// Determines which running jobs hold the slots of limits. A job stores its slots in jobs._queue_slot, jobs._key_slot,
// jobs._kind_slot, and the slots of its named limits in jobs._limit_slot1 and jobs._limit_slot2, in the order of the
// names.
//
// A claim locks a slot, checks that the slot is free, writes the slot into the row of the claimed job, and unlocks the
// slot. From then on, other sessions find the slot in the index. A claim never waits for the lock.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "core/limit.h"
#include "row/jobs_table.h"

namespace jobq {

// Whether a slot belongs to the limit of a queue, of a key, or of a kind, or to the first or second named limit of a
// job. This determines which column contains the slot of a job. The same named limit can be the first limit of one job
// and the second limit of another, so the holder of its slot must be looked up in both columns.
enum class SlotOf { Queue, Key, Kind, Named1, Named2 };
constexpr int kSlotsOf = static_cast<int>(SlotOf::Named2) + 1;
constexpr SlotOf kAllSlots[kSlotsOf] = {SlotOf::Queue, SlotOf::Key, SlotOf::Kind, SlotOf::Named1, SlotOf::Named2};
constexpr JobColumn kSlotColumns[kSlotsOf] = {kJobQueueSlot, kJobKeySlot, kJobKindSlot, kJobLimitSlot1, kJobLimitSlot2};
constexpr bool is_named(SlotOf of) { return of >= SlotOf::Named1; }
constexpr JobColumn column_of_slot(SlotOf of) { return kSlotColumns[static_cast<int>(of)]; }

// The slot indexes of the open table jobq.jobs. Each index is opened when it is first needed.
struct Slots {
    JobsTable *jobs;
    Relation indexes[kSlotsOf];
    TupleTableSlot *found;
};
void close_slots(Slots *slots);

// Locks the slot if it is free, and records that the current transaction has taken it. Returns false if the slot is not
// free or another session is taking it.
bool lock_free_slot(Slots *slots, SlotOf of, std::string_view queue, std::string_view key, int64 slot, TimestampTz now);
// Unlocks the slot. Call it after the row of the job that takes the slot has been written, or if the row will not be
// written.
void unlock_slot(int64 slot);

// Returns whether a job seems to hold the slot. The result is only a hint, because the function does not lock the slot.
bool seems_held(Slots *slots, SlotOf of, int64 slot);

// Returns the numbers of the limit's slots that jobs hold, sorted and without duplicates.
Notes<int32> held_numbers(Slots *slots, SlotOf of, int64 limit);

// Returns, according to committed rows, the number of running jobs that lack the slot that the limit of the queue, key,
// or kind, or the named limit requires. `name` is the key, the kind, or the name of the limit. If it is core::kEachKey,
// counts the jobs of all keys or kinds that have no limit of their own. A named limit counts the jobs of all its
// queues, and `queue` is ignored. Call this function inside with_spi().
int64 running_without_slot(SlotOf of, std::string_view queue, std::string_view name);

}  // namespace jobq
