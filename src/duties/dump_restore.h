// Stops the tick while a dump is being restored. pg_restore loads and commits one table after the other, so until the
// last table is loaded, a job may lack its dependencies, or a queue may lack the settings for the retention of its
// jobs. The restoring session holds a session-level advisory lock, which no SQL function can take, until it
// disconnects. The tick tries to take a conflicting lock, and leaves all jobs alone if that fails.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether this session is restoring a dump into a table of this owner. The output of pg_dump turns
// check_function_bodies off, which hardly any other session does. Only sessions with the owner's rights count, because
// otherwise any role could stop the duties with a setting.
bool restores(Oid owner);

// Marks this session as restoring a dump. Waits up to 5 seconds until a running batch of the tick ends, so that the
// restore does not become the victim of a deadlock with it.
void note_restore();

// Returns whether no session is restoring a dump. A session that has been idle for a minute counts as finished.
// Prevents a restore from beginning before the transaction ends. Must be called inside with_spi().
bool no_restore();

}  // namespace jobq
