// Sends NOTIFY jobq, '<queue>' to clients that LISTEN: at most one per queue every few milliseconds, no matter how many
// commits make jobs of the queue claimable. Only worker.cpp and round.cpp may call this, outside a transaction.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Sends the waiting notices, unless it has just sent some. Returns when to call again; kNothingDue: no notices wait.
TimestampTz send_notices(DatabaseState *db, TimestampTz now);

// Returns whether notices were sent so recently that more are likely. If so, the worker should wait for them, because
// this costs less than starting a new worker.
bool more_notices_likely(TimestampTz now);

}  // namespace jobq
