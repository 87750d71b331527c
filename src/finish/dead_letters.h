// Jobs that have failed permanently in a queue with a dead letter queue. Such a job moves there, stays `failed`, and
// its dead_from names the queue it came from. It never runs there: a retry first moves it back to the queue it came
// from. So jobs cannot circulate, even if two queues are each other's dead letter queue. Call these functions inside
// with_spi(), after locking the jobs or changing them in this transaction.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Moves failed jobs to the dead letter queue of their queue. Jobs of queues without a dead letter queue stay.
void move_to_dead_letters(const Datum *ids, int count);

// Moves the dead letters among these jobs back to the queues they came from; their status stays the same.
void return_dead_letters(const Datum *ids, int count);

// Makes the job an ordinary job of the queue it is in, no longer a dead letter.
void forget_origin(int64 id);

}  // namespace jobq
