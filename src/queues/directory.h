// Looks up the settings and limits of a queue, which every function call needs. Each session caches them until
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
    bool has_settings = false;  // whether jobq.queue_settings contains a row for the queue
    bool paused = false;
    QueueLimit *limits = nullptr;  // ordered by key
    int limit_count = 0;
    uint64 generation = 0;  // generation of the directory when the queue was read
};

// Returns the queue. The pointer is valid until the next call to find_queue(). A user-defined trigger can also cause
// such a call.
const Queue *find_queue(std::string_view name);

// Returns a copy of the queue in the current memory context, for callers that still use the queue after they have
// changed jobs, because the change can fire a user-defined trigger that calls find_queue().
Queue kept_queue(const Queue &queue);

// Returns whether the queue is still valid, that is, whether this session has received no invalidation message since
// find_queue() returned the queue. Before this function returns, the session has received the messages of all
// transactions that had released their locks before the call.
bool is_current(const Queue &queue);

// Raises 42704 if jobq.require_queues is on and the queue has no settings.
void require_known_queue(std::string_view name);

// Makes every session, including this one, reread settings and limits when the transaction commits. `table` is the
// table that changed.
void invalidate_directory(Oid table);

}  // namespace jobq
