// Calls callbacks when the catalog entry of a relation changes. A backend of PostgreSQL 15 has ten slots for relation
// cache callbacks, for the server and all extensions together; this module uses one for all of jobq.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Registers a callback for the rest of the process. It is called with the relation that may have changed, or InvalidOid
// for any relation. It must not raise an error or read a catalog. Call this once for each callback.
void on_relation_change(void (*callback)(Oid relation));

}  // namespace jobq
