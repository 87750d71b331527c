// What the limits of a queue say to a claim, job by job.
#pragma once

#include "compat/pg.h"
#include "job/life_policy.h"
#include "limits/limit_policy.h"
#include "limits/limit_slots.h"
#include "queues/directory.h"

#include <string_view>

namespace jobq {

// What a job needs of one limit, and has until it is claimed.
struct Permit {
    SlotOf of;
    int64 limit;
    int64 slot;       // 0: the limit has no max_running
    core::Rate rate;  // interval 0: no token was spent
};

// Of one call. No destructor: close_limiter.
struct Limiter {
    Slots slots;
    std::string_view name;  // of the queue
    std::string_view key;   // of the job that is asked for; empty: none
    const Queue *queue;
    TimestampTz now;
    Permit permits[2];
    int permit_count;
    int64 used_up[64];  // limits of keys that this call need not ask again
    int used_up_count;
    struct {
        int64 limit;  // 0: none
        int32 count;
    } missing[2];  // the last limit, of the queue and of a key, under which so many run without a slot
};

// Whether the queue's own limit may let a job run, as far as that is known without a look at the table. *due: when to
// ask again if not; DT_NOEND: when a slot is free.
// 55000 when a rate cannot be kept, because the library was not preloaded.
bool queue_may_run(const Queue &queue, std::string_view name, TimestampTz now, TimestampTz *due);
// The same for the limit of a key of the queue.
bool key_may_run(const Queue &queue, std::string_view name, std::string_view key, TimestampTz now, TimestampTz *due);

// The limit that applies to the queue, or to one of its keys; nullptr: none.
const QueueLimit *limit_of_queue(const Queue &queue);
const QueueLimit *limit_of_key(const Queue &queue, std::string_view key);

void open_limiter(Limiter *limiter, JobsTable *jobs, std::string_view name, const Queue &queue, TimestampTz now);
void close_limiter(Limiter *limiter);

// Whether the limit of the job's key, the job being in table.row, keeps it from running. *due: when a token comes, if
// that is what it waits for; DT_NOEND: a slot.
bool waits_for_key(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now, TimestampTz *due);

enum class Room { Yes, NotForKey, NotForQueue };
// Takes what the job in table.row needs to run. Never waits.
Room take_permits(Limiter *limiter);
// It does not run after all.
void return_permits(Limiter *limiter);
// The slots that the claim gives the job.
void enter_permits(const Limiter &limiter, core::Event *event);
// The same of any permits: what a job is given, and their number in the order in which slots were given.
void enter_slots(const Permit *permits, int count, TimestampTz now, core::Event *event);
// The new version has been written.
void keep_permits(Limiter *limiter);

// The last limit that a round has given a number of, and where it goes on.
struct Given {
    int64 limit;
    int32 next;
};
// A number of the limit for a job that runs already, the lowest that is free: the limit may be exceeded.
int64 take_any_slot(Slots *slots, SlotOf of, std::string_view name, std::string_view key, int64 limit, TimestampTz now,
                    Given *given);

}  // namespace jobq
