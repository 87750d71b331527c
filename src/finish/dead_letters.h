// Handles jobs that have failed permanently in a queue with a dead letter queue. Such a job moves to the dead letter
// queue, stays `failed`, and records in dead_from the queue from which it came. It never runs in the dead letter queue,
// because a retry first moves it back to the queue from which it came. So jobs cannot circulate, even if two queues are
// each other's dead letter queue. Call these functions inside with_spi(), after locking the jobs or changing them in
// this transaction.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Moves failed jobs to the dead letter queue of their queue. Jobs whose queue has no dead letter queue stay in their
// queue.
void move_to_dead_letters(const Datum *ids, int count);

// Moves the dead letters among these jobs back to the queues from which they came. Does not change their status.
void return_dead_letters(const Datum *ids, int count);

// Makes the job an ordinary job of its current queue, instead of a dead letter.
void forget_origin(int64 id);

}  // namespace jobq
