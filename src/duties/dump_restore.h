// A dump comes table by table, and each is committed before the next: until the last one is there, a job may lack its
// dependencies, or its queue the settings that say how long jobs are kept. Meanwhile the tick leaves all jobs alone.
// The session that restores holds a session-level advisory lock, which no SQL function can name, until it disconnects;
// the tick tries for a conflicting one.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether this session restores a dump into a table of this owner. pg_dump's output switches
// check_function_bodies off, which hardly any other session does. Only sessions with the owner's rights count, because
// other roles could stop the duties with a setting.
bool restores(Oid owner);

// Marks this session as restoring a dump. Waits up to 5 seconds until a running batch of the tick ends, so that the
// restore does not become the victim of a deadlock with it.
void note_restore();

// Returns whether no session restores. A session that has been idle for a minute has finished. Keeps restores from
// beginning until the transaction ends. Must be called inside with_spi().
bool no_restore();

}  // namespace jobq
