// Queues whose concurrency keys take turns.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The queue has round_robin from now on: all its jobs get their round-robin keys. Waits for every transaction that has
// changed jobq.jobs, and keeps others from changing it until this one ends: so no job is left without. 25001 in
// REPEATABLE READ and above. Inside with_spi().
void give_round_robin_keys(text *queue);

}  // namespace jobq
