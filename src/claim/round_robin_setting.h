// Switches a queue to round_robin, in which its concurrency keys take turns.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Gives all jobs of the queue their round-robin keys, when round_robin is switched on. Waits for every transaction that
// has changed jobq.jobs and blocks further changes until this transaction ends, so that no job stays without a key.
// Raises 25001 in REPEATABLE READ and above if a job lacks its key. Must be called inside with_spi().
void give_round_robin_keys(text *queue);

}  // namespace jobq
