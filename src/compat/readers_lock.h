// Locks a table for reading without waiting for conflicting locks.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Locks the table and all its indexes for reading until the transaction ends. Returns false, without waiting, if
// another session holds a conflicting lock, for example because it runs LOCK TABLE, VACUUM FULL, or REINDEX. Needs no
// privileges.
bool lock_for_reading(Oid table);

}  // namespace jobq
