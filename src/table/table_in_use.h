// Tells whether a table that is empty in most databases is worth a lookup.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether table jobq.NAME has any pages. Costs next to nothing.
bool is_in_use(const char *name);

}  // namespace jobq
