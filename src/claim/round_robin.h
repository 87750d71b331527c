// Which key of a queue with round_robin was served last: a number per queue in shared memory, so that the claims of all
// sessions go round together. Two queues never share a number. A hint: a restart or a crash, and more such queues than
// the server has places for, only let the round of a queue go on from a random key. Without preload each session goes
// round by itself.
#pragma once

#include "compat/pg.h"

#include <string_view>

namespace jobq {

// Returns the key of the queue that was served last, by its number.
uint64 round_robin_position(std::string_view queue);
// Moves the queue on from `*expected` to `next`. If the queue is elsewhere by now, returns false and sets `*expected`
// to that place.
bool move_round_robin(std::string_view queue, uint64 *expected, uint64 next);

// For main/jobq.cpp: its part of the shared memory.
Size round_robin_size();
void make_round_robin(void *memory, bool fresh);

}  // namespace jobq
