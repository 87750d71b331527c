// jobq.jobs is one table. No other table may inherit it and it may be no partition, because the library learns of no
// change of a row in another table.
#pragma once

#include "compat/pg.h"

namespace jobq {

// 0A000 if another table inherits jobq.jobs, or it is a partition: both can be so where the library was not preloaded.
void require_no_inheritance(Relation jobs);

// For _PG_init, while preloading: refuses statements that would make it so (0A000).
void install_inheritance_hook();

}  // namespace jobq
