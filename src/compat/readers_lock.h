// Locks a table for reading without waiting for conflicting locks.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Locks the table and all its indexes for reading until the transaction ends. Returns false if it would have to wait
// for a lock of another session, for example of LOCK TABLE, VACUUM FULL, or REINDEX. Needs no privileges.
bool lock_for_reading(Oid table);

}  // namespace jobq
