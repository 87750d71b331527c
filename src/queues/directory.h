// Looks up the settings and limits of a queue and the settings of its kinds, which every function call needs. Each
// session caches them until jobq.queue_settings, jobq.kind_settings, jobq.limit_settings, or jobq.named_limit_settings
// changes. A trigger on these tables sends a relation cache invalidation message, which reaches every session when the
// transaction commits and is discarded by a rollback. See lanes/lanes.h for the lanes of a queue.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"
#include "core/queue_settings.h"

#include <string_view>

namespace jobq {

// A row of jobq.limit_settings or, if there are members, of jobq.named_limit_settings.
struct QueueLimit {
    // The concurrency key; if by_kind is true, the kind; if there are members, the name of the limit. Empty for the
    // whole queue. core::kEachKey for each key or kind without a limit of its own.
    std::string_view key;
    int32 max_running;   // -1 if unlimited
    core::Rate rate;     // interval 0 if there is no rate
    int32 highest_slot;  // no job holds a slot with a number above both this and max_running
    bool by_kind;
    const std::string_view *members = nullptr;  // the queues that share a named limit
    int member_count = 0;
};

// The settings that apply to the jobs of a kind: the settings of the queue, replaced by those in jobq.kind_settings.
struct KindOfQueue : core::QueueSettings {
    std::string_view kind;
};

struct Queue : core::QueueSettings {
    bool has_settings = false;  // whether jobq.queue_settings contains a row for the queue
    bool paused = false;
    QueueLimit *limits = nullptr;  // the limits of the queue and of keys, of kinds, and named limits; ordered by key
    int limit_count = 0;
    int kind_limit_count = 0;
    int named_limit_count = 0;
    KindOfQueue *kinds = nullptr;  // the kinds that have settings, in byte order
    int kind_count = 0;
    uint64 generation = 0;  // generation of the directory when the queue was read
};

// Returns the queue. The pointer is valid until the next call to find_queue(). A user-defined trigger can also cause
// such a call. A caller that still uses the queue after it has changed jobs must copy it. Everything to which a copy
// points is valid until the transaction ends.
const Queue *find_queue(std::string_view name);

// Returns the settings of a kind, which is one of queue.kinds, or the settings of the queue.
const core::QueueSettings &find_kind(const Queue &queue, std::string_view kind);
// Returns the settings that apply to the queue's jobs of this kind, which are valid as long as the queue.
inline const core::QueueSettings &settings_for(const Queue &queue, std::string_view kind) {
    return queue.kind_count == 0 ? queue : find_kind(queue, kind);
}

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
