// Shared memory of jobq, there when the library is preloaded: one slot per database in use. Backends publish
// deadlines into it at commit; the launcher and the workers read them and report into it.
// Without preload every function here is a harmless no-op.
#pragma once

#include "pg/pg.h"

namespace jobq {

// Registers the hooks that reserve and create the shared memory. Called by _PG_init while preloading.
void request_shared_state();

// True when the library was preloaded.
bool shared_state_ready();

// The moment from which leases have their grace: creation of the shared memory (server start,
// crash restart), promotion, or the last step of the clock. Without preload: the start of the server.
TimestampTz grace_start();

// Tells the background worker of this database, when the current transaction commits, that something is due at
// `when` (a lease runs out, a job becomes due). Costs nothing when something earlier is known already.
// Nothing happens when the (sub)transaction rolls back, except that an early look may find nothing to do.
void publish_due_at_commit(TimestampTz when);

}  // namespace jobq
