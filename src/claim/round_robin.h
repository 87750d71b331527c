// Stores, in shared memory, the position of each queue that has the setting round_robin, so that the claims of all
// sessions serve the keys in a common rotation. The position is the key that was served last. Two queues never share a
// position. The position is a hint: after a restart or crash, or if the server has more such queues than slots, the
// rotation continues from a random key. If the library is not preloaded, each session has its own rotation.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Returns the key that was served last in the queue.
uint64 round_robin_position(std::string_view queue);
// Moves the queue's position from `*expected` to `next`. If the position is no longer `*expected`, sets `*expected` to
// the current position and returns false.
bool move_round_robin(std::string_view queue, uint64 *expected, uint64 next);

// main/jobq.cpp calls these functions to set up the positions in shared memory and to report their usage.
Size round_robin_size();
void make_round_robin(void *memory, bool fresh);
SharedUsage round_robin_usage();

}  // namespace jobq
