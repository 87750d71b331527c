// Applies the limits of a queue to each job that a claim wants to take.
#pragma once

#include "compat/pg.h"
#include "core/life.h"
#include "core/limit.h"
#include "limits/limit_slots.h"
#include "queues/directory.h"

#include <string_view>

namespace jobq {

// What a claim has taken for a job under one limit: a slot, a token, or both.
struct Permit {
    SlotOf of;
    int64 limit;
    int64 slot;       // 0 if the limit has no max_running
    core::Rate rate;  // the interval is 0 if no token was spent
};

// The state of one claim. It has no destructor; call close_limiter().
struct Limiter {
    Slots slots;
    std::string_view name;  // name of the queue
    std::string_view key;   // concurrency key of the current job; empty if the job has none
    const Queue *queue;
    TimestampTz now;
    Permit permits[2];
    int permit_count;
    int64 used_up[64];  // limits of keys that this claim has found to be full and need not check again
    int used_up_count;
    // Number of jobs that run without a slot under the limit of the queue, and under the last checked limit of a key.
    struct {
        int64 limit;  // 0 if unused
        int32 count;
    } missing[2];
};

// Returns whether, according to the state in shared memory, the limit of the queue might allow a job to run. If not,
// sets *due to the time at which to check again, or to DT_NOEND if the claim must wait for a free slot. Raises 55000 if
// a rate cannot be enforced because the library is not preloaded.
bool queue_may_run(const Queue &queue, std::string_view name, TimestampTz now, TimestampTz *due);

// limit_of_queue() returns the limit of the whole queue, and limit_of_key() returns the limit that applies to a
// concurrency key. Both functions return nullptr if there is no such limit.
const QueueLimit *limit_of_queue(const Queue &queue);
const QueueLimit *limit_of_key(const Queue &queue, std::string_view key);

void open_limiter(Limiter *limiter, JobsTable *jobs, std::string_view name, const Queue &queue, TimestampTz now);
void close_limiter(Limiter *limiter);

// Returns whether the limit of the concurrency key of the job in table.row prevents the job from running. If so, sets
// *due to the time of the next token, or to DT_NOEND if the job must wait for a slot.
bool waits_for_key(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now, TimestampTz *due);

enum class Room { Yes, NotForKey, NotForQueue };
// Takes the slots and tokens that the job in table.row needs to run. Never waits.
Room take_permits(Limiter *limiter);
// Gives back the permits that the last call to take_permits() took. Call it if the job will not run after all.
void return_permits(Limiter *limiter);
// Stores in the event the slots that take_permits() took.
void enter_permits(const Limiter &limiter, core::Event *event);
// Stores in the event the slots of the given permits. Also sets the event's slot_seq to the minimum that
// next_slot_seq() requires for these slots.
void enter_slots(const Permit *permits, int count, TimestampTz now, core::Event *event);
// Keeps the permits and unlocks their slots. Call it after the new version of the job's row has been written.
void keep_permits(Limiter *limiter);

// The limit for which take_any_slot() was last called, and the number at which its search for a free slot continues.
struct Given {
    int64 limit;
    int32 next;
};
// For a job that is already running, takes the free slot with the lowest number, even if the number is higher than
// max_running.
int64 take_any_slot(Slots *slots, SlotOf of, std::string_view name, std::string_view key, int64 limit, TimestampTz now,
                    Given *given);

}  // namespace jobq
