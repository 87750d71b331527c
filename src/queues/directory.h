// Looks up the settings and limits of a queue, which every call needs. Each session caches them until
// jobq.queue_settings or jobq.limit_settings changes. A trigger on both tables sends a relation cache invalidation
// message, which reaches every session when the transaction commits and is discarded by a rollback. See lanes/lanes.h
// for the lanes of a queue.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"
#include "core/queue_settings.h"

#include <string_view>

namespace jobq {

// A row of jobq.limit_settings.
struct QueueLimit {
    std::string_view key;  // empty for the whole queue; core::kEachKey for each key without a limit of its own
    int32 max_running;     // -1 if unlimited
    core::Rate rate;       // interval 0 if there is no rate
    int32 highest_slot;    // no job holds a slot with a number above both this and max_running
};

struct Queue : core::QueueSettings {
    bool has_settings;  // whether jobq.queue_settings contains a row of the queue
    bool paused;
    QueueLimit *limits;  // ordered by key
    int limit_count;
    uint64 generation;  // generation of the directory when the queue was read
};

// Returns the queue. The pointer is valid until the next call to find_queue(), which a user's trigger may also cause.
const Queue *find_queue(std::string_view name);

// Returns a copy of the queue in the current memory context, for callers that change jobs before they use the queue for
// the last time, because a user's trigger may run in between.
Queue kept_queue(const Queue &queue);

// Returns whether the queue is still valid: this session has received no invalidation message since find_queue()
// returned the queue. The messages of every transaction that released its locks before this call have been received.
bool is_current(const Queue &queue);

// Raises 42704 if jobq.require_queues is on and the queue has no settings.
void require_known_queue(std::string_view name);

// Makes every session, including this one, read settings and limits again when the transaction commits. `table` is the
// table that changed.
void invalidate_directory(Oid table);

}  // namespace jobq
