// Calls callbacks when the catalog entry of a relation changes. In PostgreSQL 15, a backend has ten slots for relation
// cache callbacks, which the server and all extensions share; this module uses one slot for all of jobq.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Registers a callback, which stays registered until the process ends, unless it is already registered. The callback
// receives the OID of the relation that might have changed, or InvalidOid if any relation might have changed. The
// callback must not raise an error or read a catalog.
void on_relation_change(void (*callback)(Oid relation));

}  // namespace jobq
