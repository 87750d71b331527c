// Queues with a max_depth. How many jobs wait in one, and which go when it is full.
#pragma once

#include "compat/pg.h"
#include "queues/directory.h"

#include <string_view>

namespace jobq {

// The ids of jobs that are not to be dropped, in their order.
struct SparedJobs {
    const int64 *ids;
    int count;
};

// `added` jobs are about to enter a queue. Returns when they may: where the queue has a max_depth, the oldest pending
// jobs may have been cancelled for them. 53400 when they may not. What find_queue() returned before must not be used
// afterwards.
//
// The depth is that of the counters, with this transaction's own changes: what others are enqueuing at this moment is
// not in it, so the limit is soft by that much. Where there are no counters the rows are counted.
void make_room(std::string_view name, int64 added, TimestampTz now, const SparedJobs &spared = {nullptr, 0});

}  // namespace jobq
