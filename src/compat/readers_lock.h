// A table that can be read without waiting for who has locked it.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Locks the table and all its indexes as reading them does, until the transaction ends. False when that would have to
// wait: for LOCK TABLE, VACUUM FULL or REINDEX, say. Needs no rights.
bool lock_for_reading(Oid table);

}  // namespace jobq
