// Stops the tick while a dump is being restored. pg_restore loads and commits one table after the other, so until the
// last table is loaded, a job may lack its dependencies, or a queue may lack the settings for the retention of its
// jobs. The restoring session holds a session-level advisory lock until it disconnects; no SQL function can acquire
// this lock. The tick tries to acquire a conflicting lock and does not change any job if that fails.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether this session is restoring a dump into a table of this owner. The output of pg_dump turns
// check_function_bodies off, which hardly any other session does. Only sessions with the owner's rights count, because
// otherwise any role could stop the duties with that setting.
bool restores(Oid owner);

// Marks this session as restoring a dump. First waits up to 5 seconds for a running batch of the tick to end, because
// in a deadlock with the tick the restore could be the transaction that is aborted.
void note_restore();

// Returns whether no session is restoring a dump. A session that has been idle for a minute no longer counts. If the
// result is true, no restore can begin until this transaction ends. Must be called inside with_spi().
bool no_restore();

}  // namespace jobq
