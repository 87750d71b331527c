// The store, the tick's side: the statements behind rescue, cancel, promote, prune and repair. Inside with_spi().
#pragma once

#include "pg/pg.h"

namespace jobq {

// Each returns how many rows it changed; *more says that a full batch was found and another may be waiting. *unread
// says that the prune has rows left to look at on its walk.
int64 rescue_expired(TimestampTz now, TimestampTz grace_start, int batch, bool *more);
int64 cancel_overdue(TimestampTz now, TimestampTz requested_before, int batch, bool *more);
int64 promote_due(TimestampTz now, int batch, bool *more);
int64 prune_finished(TimestampTz now, int batch, bool *more, bool *unread);
// Adds lanes that a change by hand left out of the directory, and pulls back heartbeats from the future, `now` and the
// clock's.
int64 repair(TimestampTz now);

// The earliest time at which a lease runs out, a cancellation is forced or a job comes due; DT_NOEND: none.
TimestampTz earliest_deadline(TimestampTz grace_start, int64 cancel_grace);
// Whether there is any job that is not finished; whether there is any job at all.
bool any_unfinished_job();
bool any_job();

}  // namespace jobq
