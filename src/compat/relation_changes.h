// What hears that the catalogue's entry of a relation has changed. A backend of PostgreSQL 15 has ten places for
// relation cache callbacks, for the server and all extensions together: this takes one for all of jobq.
#pragma once

#include "compat/pg.h"

namespace jobq {

// From now on until the process ends `callback` is called with the relation that may have changed, InvalidOid: any. It
// raises no error and reads no catalogue. Once for each callback.
void on_relation_change(void (*callback)(Oid relation));

}  // namespace jobq
