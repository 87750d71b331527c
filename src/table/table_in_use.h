// Whether a table is worth a look that came with a later release, or that most databases leave empty.
#pragma once

#include "compat/pg.h"

namespace jobq {

// False while table jobq.NAME is empty, or where the SQL of the database is older than it. Next to free.
bool is_in_use(const char *name);

}  // namespace jobq
