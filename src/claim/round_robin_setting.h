// Switches a queue to round_robin, in which its concurrency keys take turns.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Assigns round-robin keys to all jobs of the queue when round_robin is enabled. Waits for every transaction that has
// changed jobq.jobs, and blocks further changes until the current transaction ends, so that no job is left without a
// key. Raises 25001 in REPEATABLE READ and above if a job lacks its round-robin key. Must be called inside with_spi().
void give_round_robin_keys(text *queue);

}  // namespace jobq
