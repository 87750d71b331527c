// Jobs that have failed for good in a queue with a dead letter queue. Such a job moves there, stays
// `failed`, and its dead_from names the queue it came from. It never runs there: whatever makes it run again sends it
// home first. So jobs cannot go round in a circle, whatever queues name each other.
// All inside with_spi(). The caller has locked the jobs, or changed them in this transaction.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Moves those of these jobs, which have just failed, whose queue has a dead letter queue.
void bury_jobs(const Datum *ids, int count);

// Moves those of these jobs that are dead letters back to where they came from; their status stays as it is.
void send_home(const Datum *ids, int count);

// The job shall stay where it is and not be a dead letter any more.
void forget_origin(int64 id);

}  // namespace jobq
