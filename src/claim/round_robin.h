// Which key of a queue with round_robin was served last: a number per queue in shared memory, so that the claims of all
// sessions go round together. A hint: queues that meet in one place, a restart or a crash only let the round go on
// elsewhere. Without preload each session goes round by itself, from a random place.
#pragma once

#include "compat/pg.h"

#include <string_view>

namespace jobq {

pg_atomic_uint64 *round_robin_position(std::string_view queue);

// For main/jobq.cpp: its part of the shared memory.
Size round_robin_size();
void make_round_robin(void *memory, bool fresh);

}  // namespace jobq
