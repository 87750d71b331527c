// The store: queues with a max_depth. How many jobs wait in one, and which go when it is full.
#pragma once

#include "pg/pg.h"
#include "store/directory.h"

#include <string_view>

namespace jobq {

// `added` jobs are about to enter a queue that has a max_depth. Returns when they may: the oldest pending jobs have
// been cancelled for them, where the queue says so. 53400 when they may not. `queue` is what find_queue() returned, and
// must not be used afterwards.
//
// The depth is that of the counters, with this transaction's own changes: what others are enqueuing at this moment is
// not in it, so the limit is soft by that much. Where there are no counters the rows are counted.
void make_room(std::string_view name, const Queue &queue, int64 added, TimestampTz now);

}  // namespace jobq
