// What every call needs to know of a queue: its settings and its lanes. Kept in each session, read again when
// jobq.queue_settings or jobq.lane_directory changed: a trigger on both sends a relation cache invalidation, which is
// transactional, reaches every session, and is undone by a rollback.
#pragma once

#include "core/backpressure.h"
#include "core/job.h"
#include "core/lane.h"
#include "core/limit.h"
#include "core/max_runtime.h"
#include "core/retry.h"
#include "pg/pg.h"

#include <string_view>

namespace jobq {

struct Lane {
    int64 id;
    std::string_view kind;
    int32 version;
    std::string_view *required;  // canonical set
    int required_count;
};

// A row of jobq.limit_settings.
struct QueueLimit {
    std::string_view key;  // empty: of the whole queue; core::kEachKey: of each key that has none of its own
    int32 max_running;     // -1: any number
    core::Rate rate;       // interval 0: none
    int32 highest_slot;    // no job holds a slot with a higher number, unless that is at most max_running
};

struct Queue {
    bool has_settings;  // has a row in jobq.queue_settings
    bool paused;
    int32 max_attempts;
    core::RetryPolicy retry;
    core::Micros heartbeat_timeout;
    int32 max_lost;
    core::Micros keep_completed;
    core::Micros keep_failed;
    int32 max_depth;  // 0: none
    core::FullPolicy on_full;
    std::string_view dead_letter_queue;  // empty: none
    core::Micros max_runtime;            // 0: none
    core::OnMaxRuntime on_max_runtime;
    core::Micros priority_ageing;  // 0: none
    bool round_robin;
    Lane *lanes;  // in the order of their ids
    int lane_count;
    QueueLimit *limits;  // in the order of their keys
    int limit_count;
};

// The pointer is good until the next call of find_queue or ensure_lane, which somebody's trigger may make as well.
const Queue *find_queue(std::string_view name);

// What find_queue returned, without its lanes, in the current memory context: for whoever changes jobs meanwhile.
Queue kept_queue(const Queue &queue);

// 42704 when jobq.require_queues is on and the queue has no settings.
void require_known_queue(std::string_view name);

// The id of a lane; enters it into the directory unless it is there. Never waits for another transaction.
// Inside with_spi().
int64 ensure_lane(std::string_view queue, std::string_view kind, int32 version, ArrayType *required);

// The id of a lane. `required`, here and above, may be nullptr.
int64 lane_id(std::string_view queue, std::string_view kind, int32 version, ArrayType *required);

// Makes every session, this one included, read the directory again once the transaction commits.
// `table` is the table that changed.
void invalidate_directory(Oid table);

}  // namespace jobq
