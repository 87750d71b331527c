// Stops the tick while a dump is being restored. pg_restore loads and commits one table after the other. Until the last
// table has been loaded, a job might lack its dependencies, or a queue might lack the retention settings for its jobs.
// The restoring session holds a session-level advisory lock until it disconnects; no SQL function can acquire this
// lock. The tick tries to acquire a conflicting lock, and if it cannot, it does not change any jobs.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether this session is restoring a dump into a table that belongs to `owner`. The script that pg_dump
// creates sets check_function_bodies to off, which hardly any other session does. Only sessions with the privileges of
// `owner` count; otherwise, any role could stop the duties with this setting.
bool restores(Oid owner);

// Marks this session as restoring a dump. First waits up to 5 seconds for a running batch of the tick to end.
// Otherwise, the restore and the tick could deadlock, and the restore could be the transaction that is aborted.
void note_restore();

// Returns whether no session is restoring a dump. A session that has been idle for a minute no longer counts. If the
// result is true, no restore can begin until this transaction ends. Must be called inside with_spi().
bool no_restore();

// Waits until the transactions that are performing duties now have ended. They hold the lock that no_restore()
// acquires.
void wait_for_duties();

}  // namespace jobq
