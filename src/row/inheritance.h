// Ensures that no table inherits from jobq.jobs and that jobq.jobs is not a partition. Otherwise, a change could go
// through another table, and the library would not be notified of it.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Raises 0A000 if a table inherits from jobq.jobs or if jobq.jobs is a partition. Either can happen while the library
// is not preloaded.
void require_no_inheritance(Relation jobs);

// Makes a statement fail with 0A000 if it would make a table inherit from jobq.jobs or make jobq.jobs a partition.
// _PG_init calls this function when the library is preloaded.
void install_inheritance_hook();

}  // namespace jobq
