// NOTIFY jobq, '<queue>' for clients that LISTEN: at most one for a queue in some milliseconds, however many commits
// made jobs of it claimable. Who may call it: worker.cpp and round.cpp, outside a transaction.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

// Sends what waits to be sent, unless it has just done so. Returns when to call again; kNothingDue: nothing waits.
TimestampTz send_notices(DatabaseState *db, TimestampTz now);

// Whether it sent anything so recently that staying for the next one costs less than coming back.
bool more_notices_likely(TimestampTz now);

}  // namespace jobq
