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

// The state of one call. It has no destructor; call close_limiter().
struct Limiter {
    Slots slots;
    std::string_view name;  // name of the queue
    std::string_view key;   // key of the current job; empty if it has none
    const Queue *queue;
    TimestampTz now;
    Permit permits[2];
    int permit_count;
    int64 used_up[64];  // limits of keys that this call need not check again
    int used_up_count;
    struct {
        int64 limit;  // 0 if unused
        int32 count;
    } missing[2];  // the last limit, of the queue and of a key, and the number of jobs that run under it without a slot
};

// Returns whether the queue's own limit may let a job run, as far as is known without reading the table. If not, *due
// is the time to check again, or DT_NOEND to wait for a free slot. Raises 55000 if a rate cannot be enforced because
// the library is not preloaded.
bool queue_may_run(const Queue &queue, std::string_view name, TimestampTz now, TimestampTz *due);
// Does the same for the limit of a key of the queue.
bool key_may_run(const Queue &queue, std::string_view name, std::string_view key, TimestampTz now, TimestampTz *due);

// Return the limit that applies to the queue, or to one of its keys, or nullptr.
const QueueLimit *limit_of_queue(const Queue &queue);
const QueueLimit *limit_of_key(const Queue &queue, std::string_view key);

void open_limiter(Limiter *limiter, JobsTable *jobs, std::string_view name, const Queue &queue, TimestampTz now);
void close_limiter(Limiter *limiter);

// Returns whether the limit of its key prevents the job in table.row from running. Then *due is the time of the next
// token, or DT_NOEND if the job waits for a slot.
bool waits_for_key(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now, TimestampTz *due);

enum class Room { Yes, NotForKey, NotForQueue };
// Takes what the job in table.row needs to run. Never waits.
Room take_permits(Limiter *limiter);
// Returns the permits of a job that does not run after all.
void return_permits(Limiter *limiter);
// Writes the slots of the claim into the event.
void enter_permits(const Limiter &limiter, core::Event *event);
// Does the same for any permits, with their sequence number in the order in which slots were given.
void enter_slots(const Permit *permits, int count, TimestampTz now, core::Event *event);
// Keeps the permits after the new version of the row has been written.
void keep_permits(Limiter *limiter);

// The last limit of which a number was given, and the number at which the search continues.
struct Given {
    int64 limit;
    int32 next;
};
// Takes the lowest free number of the limit for a job that is already running. The limit may be exceeded.
int64 take_any_slot(Slots *slots, SlotOf of, std::string_view name, std::string_view key, int64 limit, TimestampTz now,
                    Given *given);

}  // namespace jobq
