// Keeps jobq.jobs a plain table: no table may inherit from it, and it must not be a partition, because the library is
// not notified of changes to rows in another table.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Raises 0A000 if another table inherits from jobq.jobs or it is a partition, which is possible if the library was not
// preloaded.
void require_no_inheritance(Relation jobs);

// For _PG_init, while preloading: rejects statements that would do this (0A000).
void install_inheritance_hook();

}  // namespace jobq
