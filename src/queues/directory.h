// What every call needs to know of a queue: its settings and limits; its lanes are in lanes.h. Kept in each session,
// read again when jobq.queue_settings or jobq.limit_settings changed: a trigger on both sends a relation cache
// invalidation, which is transactional, reaches every session, and is undone by a rollback.
#pragma once

#include "compat/pg.h"
#include "limits/limit_policy.h"
#include "queues/queue_settings_policy.h"

#include <string_view>

namespace jobq {

// A row of jobq.limit_settings.
struct QueueLimit {
    std::string_view key;  // empty: of the whole queue; core::kEachKey: of each key that has none of its own
    int32 max_running;     // -1: any number
    core::Rate rate;       // interval 0: none
    int32 highest_slot;    // no job holds a slot with a higher number, unless that is at most max_running
};

struct Queue : core::QueueSettings {
    bool has_settings;  // has a row in jobq.queue_settings
    bool paused;
    QueueLimit *limits;  // in the order of their keys
    int limit_count;
    uint64 generation;  // of the directory when the queue was read
};

// The pointer is good until the next call of find_queue, which somebody's trigger may make as well.
const Queue *find_queue(std::string_view name);

// What find_queue returned, in the current memory context: for whoever changes jobs meanwhile.
Queue kept_queue(const Queue &queue);

// Returns whether no change of settings or limits has reached this session since find_queue() returned the queue. Every
// change whose transaction had released its locks before the call has reached it.
bool is_current(const Queue &queue);

// 42704 when jobq.require_queues is on and the queue has no settings.
void require_known_queue(std::string_view name);

// Makes every session, this one included, read them again once the transaction commits.
// `table` is the table that changed.
void invalidate_directory(Oid table);

}  // namespace jobq
