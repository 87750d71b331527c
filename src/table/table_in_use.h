// Tells whether a table may contain rows, so that lookups in tables that are empty in most databases can be skipped.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether table jobq.NAME has any pages. Costs next to nothing.
bool is_in_use(const char *name);

}  // namespace jobq
