// Whether a table of the steps is worth a look.
#pragma once

#include "compat/pg.h"

namespace jobq {

// False while table jobq.NAME is empty, or where the SQL of the database is older than it. Next to free.
bool is_in_use(const char *name);

}  // namespace jobq
