// Enforces max_depth: counts the waiting jobs of a queue, and drops jobs or raises an error if the queue is full.
#pragma once

#include "compat/pg.h"
#include "queues/directory.h"

#include <string_view>

namespace jobq {

// The ids of jobs that must not be dropped, in ascending order.
struct SparedJobs {
    const int64 *ids;
    int count;
};

// Makes room for `added` jobs in a queue. If the queue has a max_depth, this function can cancel the oldest pending
// jobs of the queue. Raises 53400 if there is not enough room. Pointers that find_queue() has returned are invalid
// after this call.
//
// The depth is the value of the counters plus this transaction's own changes. It does not include uncommitted jobs of
// other sessions, so the limit can be exceeded by the number of these jobs. If the counters are unknown, the rows are
// counted.
void make_room(std::string_view name, int64 added, TimestampTz now, const SparedJobs &spared = {nullptr, 0});

}  // namespace jobq
