// Sends NOTIFY jobq, '<queue>' to clients that LISTEN: at most one notification per queue every few milliseconds, no
// matter how many commits make jobs of the queue claimable. Only worker.cpp and round.cpp may call this, outside a
// transaction.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Sends NOTIFY for the queues that commits have posted (wait/notices.h), unless it has done so a moment ago. Returns
// when to call it again, or kNothingDue if no notices remain.
TimestampTz send_notices(DatabaseState *db, TimestampTz now);

// Returns whether notifications were sent so recently that more are likely to be needed soon. If so, the worker should
// stay connected and wait, because this costs less than starting a new worker.
bool more_notices_likely(TimestampTz now);

}  // namespace jobq
