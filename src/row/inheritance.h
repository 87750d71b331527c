// Keeps jobq.jobs a plain table: no table may inherit from it, and it must not be a partition, because the library is
// not notified of changes to rows in another table.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Raises 0A000 if another table inherits from jobq.jobs or jobq.jobs is a partition. Both are possible if the library
// was not preloaded.
void require_no_inheritance(Relation jobs);

// Makes statements fail with 0A000 that would create such a table. _PG_init calls this while the library is preloaded.
void install_inheritance_hook();

}  // namespace jobq
