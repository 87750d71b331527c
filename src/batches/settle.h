// Settles batches: enqueues the callbacks of a batch once, when it has been sealed and all of its members have ended.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

namespace jobq {

// Enqueues the callbacks if the batch is sealed, has not finished, and all of its members have ended. Does nothing if
// another session is settling the batch. Returns whether the batch has finished. The snapshot must be new, so do not
// call it in REPEATABLE READ and above. Reads and writes the batch with the owner's privileges, and enqueues with those
// of the current user. Call it inside with_spi().
bool settle_batch(int64 id, TimestampTz now);

// The duty "batches": settles the batches whose last member may have ended.
DutyOutcome settle_batches(TimestampTz now, int batch);

// Returns whether any sealed batch has not finished.
bool any_unsettled_batch();
// Returns whether the callbacks of any batch could not be enqueued and are still missing.
bool any_batch_fails();

// Adds up the numbers of deleted members, and deletes batches that have finished and have no members left. A batch is
// kept for at least a day. Returns whether there may be more to do. Part of the duty "prune".
bool prune_batches(TimestampTz now, int batch);

}  // namespace jobq
