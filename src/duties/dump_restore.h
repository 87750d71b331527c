// A dump comes table by table, and each is committed before the next: until the last one is there, a job may lack its
// dependencies, or its queue the settings that say how long jobs are kept. Meanwhile the tick leaves all jobs alone.
// The session that restores holds a session-level advisory lock, which no SQL function can name, until it disconnects;
// the tick tries for a conflicting one.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Whether this session restores a dump into a table of this owner: pg_dump's output switches check_function_bodies off,
// hardly anybody else does. Believed of who has the owner's rights alone: others would stop the duties by a setting.
bool restores(Oid owner);

// From now on this session counts as one that restores. Waits for a batch of the tick that goes on, at most 5 seconds,
// so that a restore cannot be the victim of a deadlock.
void note_restore();

// Whether no session restores; those that have been idle for a minute have nothing more to restore. Keeps restores from
// beginning until the transaction ends. Inside with_spi().
bool no_restore();

}  // namespace jobq
