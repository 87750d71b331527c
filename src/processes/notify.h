// Sends NOTIFY jobq, '<queue>' to clients that LISTEN. At most one notification is sent per queue every few
// milliseconds, no matter how many commits make jobs in the queue claimable. Only worker.cpp and round.cpp may call
// these functions, and only outside a transaction.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Sends NOTIFY for the queues that commits have posted (wait/notices.h), unless this process has just sent
// notifications. Returns the time at which to call the function again, or kNothingDue if no notices remain.
TimestampTz send_notices(DatabaseState *db, TimestampTz now);

// Returns whether notifications were sent so recently that the worker will probably have to send more soon. If so, the
// worker should stay connected and wait, because this costs less than starting a new worker.
bool more_notices_likely(TimestampTz now);

}  // namespace jobq
