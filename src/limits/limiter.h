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
    // Names to which the limits of the current job apply: empty for the queue, the concurrency key, the kind, and the
    // names of its named limits.
    std::string_view names[kSlotsOf];
    const Queue *queue;
    TimestampTz now;
    Permit permits[kSlotsOf];
    int permit_count;
    int64 used_up[64];  // limits except that of the queue that this claim has found to be full and need not check again
    int used_up_count;
    // Number of jobs that run without a slot under the limit of the queue, and under the last checked limits of the
    // other types.
    struct {
        int64 limit;  // 0 if unused
        int32 count;
    } missing[kSlotsOf];
};

// Returns whether, according to the state in shared memory, the limit of the queue might allow a job to run. If not,
// sets *due to the time at which to check again, or to DT_NOEND if the claim must wait for a free slot. Raises 55000 if
// a rate cannot be enforced because the library is not preloaded.
bool queue_may_run(const Queue &queue, std::string_view name, TimestampTz now, TimestampTz *due);

// limit_of_queue() returns the limit of the whole queue. limit_of_key() and limit_of_kind() return the limit that
// applies to a concurrency key or kind. All of these functions return nullptr if there is no such limit.
const QueueLimit *limit_of_queue(const Queue &queue);
const QueueLimit *limit_of_key(const Queue &queue, std::string_view key);
const QueueLimit *limit_of_kind(const Queue &queue, std::string_view kind);
// Returns the named limit, or nullptr if it does not exist or does not include the queue.
const QueueLimit *named_limit(const Queue &queue, std::string_view name);
// Returns the number of limits of the queue and of its keys.
inline int key_limit_count(const Queue &queue) {
    return queue.limit_count - queue.kind_limit_count - queue.named_limit_count;
}

// Returns the limit of the given type that applies to a key or kind, or that has this name, or nullptr. `name` is
// ignored for the limit of the queue.
const QueueLimit *find_limit(const Queue &queue, SlotOf of, std::string_view name);
// Returns the number of the limit of a queue, or of one of its keys or kinds, or of a named limit.
int64 limit_id(SlotOf of, std::string_view queue, std::string_view name);

// A limit that applies to a job.
struct AppliedLimit {
    const QueueLimit *limit;  // nullptr if no such limit applies to the job
    std::string_view name;    // the key, the kind, or the name of the limit; empty for the limit of the queue
    int64 id;
};
// Returns the `queue` argument of spend_token() for a limit of a queue: the limit itself if several queues share it.
int64 bucket_owner(const QueueLimit &limit, int64 id, std::string_view queue);
// Returns the limit of the given type that applies to the job in table.row. `name` is the name of the queue.
AppliedLimit limit_of_job(const JobsTable &jobs, const Queue &queue, std::string_view name, SlotOf of);

void open_limiter(Limiter *limiter, JobsTable *jobs, std::string_view name, const Queue &queue, TimestampTz now);
void close_limiter(Limiter *limiter);

// These functions return whether, according to the state in shared memory, a limit prevents the job in table.row from
// running: the limit of its concurrency key, or a limit that applies to all jobs of its lane, which is the limit of its
// kind or a named limit. If so, they set *due to the time of the next token, if this time is earlier than *due. If the
// job must wait for a slot, they do not change *due.
bool waits_for_key(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now, TimestampTz *due);
bool waits_for_lane(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now,
                    TimestampTz *due);

enum class Room { Yes, NotForKey, NotForLane, NotForQueue };
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
// Records the queues that share a named limit before the transaction takes or frees a slot of the limit. `id` is the
// number of the limit.
void log_members_of(const QueueLimit &limit, int64 id);
// Records that a job of the queue has freed a slot of a named limit.
void named_slot_freed(std::string_view queue, int64 slot);

// For a job that is already running, takes the free slot with the lowest number, even if the number is higher than
// max_running.
int64 take_any_slot(Slots *slots, SlotOf of, std::string_view name, std::string_view key, int64 limit, TimestampTz now,
                    Given *given);

}  // namespace jobq
