// Applies the limits of a queue to a claim, job by job.
#pragma once

#include "compat/pg.h"
#include "core/life.h"
#include "core/limit.h"
#include "limits/limit_slots.h"
#include "queues/directory.h"

#include <string_view>

namespace jobq {

// The slot and the token of one limit that a claim has taken for a job.
struct Permit {
    SlotOf of;
    int64 limit;
    int64 slot;       // 0 if the limit has no max_running
    core::Rate rate;  // interval 0 if no token was spent
};

// The state of one claim. It has no destructor; call close_limiter().
struct Limiter {
    Slots slots;
    std::string_view name;  // name of the queue
    std::string_view key;   // key of the current job; empty if it has none
    const Queue *queue;
    TimestampTz now;
    Permit permits[2];
    int permit_count;
    int64 used_up[64];  // limits of keys that have no room, which this claim need not check again
    int used_up_count;
    // For the limit of the queue and the last limit of a key: the number of jobs that run under it without a slot.
    struct {
        int64 limit;  // 0 if unused
        int32 count;
    } missing[2];
};

// Returns whether the limit of the queue may let a job run, as far as shared memory shows. If not, sets *due to the
// time to check again, or to DT_NOEND if the claim must wait for a free slot. Raises 55000 if a rate cannot be enforced
// because the library is not preloaded.
bool queue_may_run(const Queue &queue, std::string_view name, TimestampTz now, TimestampTz *due);
// Returns whether the limit of a concurrency key may let a job of the queue run. Otherwise like queue_may_run().
bool key_may_run(const Queue &queue, std::string_view name, std::string_view key, TimestampTz now, TimestampTz *due);

// Return the limit that applies to the queue or to one of its concurrency keys, or nullptr if there is none.
const QueueLimit *limit_of_queue(const Queue &queue);
const QueueLimit *limit_of_key(const Queue &queue, std::string_view key);

void open_limiter(Limiter *limiter, JobsTable *jobs, std::string_view name, const Queue &queue, TimestampTz now);
void close_limiter(Limiter *limiter);

// Returns whether the limit of its concurrency key prevents the job in table.row from running. If so, sets *due to the
// time of the next token, or to DT_NOEND if the job waits for a slot.
bool waits_for_key(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now, TimestampTz *due);

enum class Room { Yes, NotForKey, NotForQueue };
// Takes the slots and tokens that the job in table.row needs to run. Never waits.
Room take_permits(Limiter *limiter);
// Gives back the permits that the last take_permits() took, because the job does not run after all.
void return_permits(Limiter *limiter);
// Writes the slots that take_permits() took into the event.
void enter_permits(const Limiter &limiter, core::Event *event);
// Writes the slots of the given permits into the event. Also sets the event's slot_seq to the lowest value of
// jobs._slot_seq that next_slot_seq() allows for all these slots.
void enter_slots(const Permit *permits, int count, TimestampTz now, core::Event *event);
// Keeps the permits and unlocks their slots. Call it after the new version of the row has been written.
void keep_permits(Limiter *limiter);

// The limit for which take_any_slot() was last called, and the number at which its search for a free slot continues.
struct Given {
    int64 limit;
    int32 next;
};
// Takes the free slot with the lowest number for a job that is already running. The number may exceed max_running.
int64 take_any_slot(Slots *slots, SlotOf of, std::string_view name, std::string_view key, int64 limit, TimestampTz now,
                    Given *given);

}  // namespace jobq
