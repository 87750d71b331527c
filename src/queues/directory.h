// The settings and limits of a queue, which every call needs; lanes/lanes.h has its lanes. Each session caches them
// until jobq.queue_settings or jobq.limit_settings changes. A trigger on both tables sends a relation cache
// invalidation, which is transactional, reaches every session, and is undone by a rollback.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"
#include "core/queue_settings.h"

#include <string_view>

namespace jobq {

// A row of jobq.limit_settings.
struct QueueLimit {
    std::string_view key;  // empty: the whole queue; core::kEachKey: each key without a limit of its own
    int32 max_running;     // -1 if unlimited
    core::Rate rate;       // interval 0 if there is no rate
    int32 highest_slot;    // no job holds a slot with a number above both this and max_running
};

struct Queue : core::QueueSettings {
    bool has_settings;  // has a row in jobq.queue_settings
    bool paused;
    QueueLimit *limits;  // ordered by key
    int limit_count;
    uint64 generation;  // generation of the directory when the queue was read
};

// Returns the queue. The pointer is valid until the next call of find_queue(), which may also come from a user's
// trigger.
const Queue *find_queue(std::string_view name);

// Returns a copy in the current memory context, for callers that change jobs while they need the queue.
Queue kept_queue(const Queue &queue);

// Returns whether no change of settings or limits has reached this session since find_queue() returned the queue. Every
// change whose transaction had released its locks before the call has reached it.
bool is_current(const Queue &queue);

// Raises 42704 if jobq.require_queues is on and the queue has no settings.
void require_known_queue(std::string_view name);

// Makes every session, including this one, read settings and limits again when the transaction commits. `table` is the
// table that changed.
void invalidate_directory(Oid table);

}  // namespace jobq
