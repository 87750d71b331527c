// Checks whether a table can contain rows, so that lookups in tables that are empty in most databases can be skipped.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether the table with this name in the schema jobq has any pages. The check costs almost nothing.
bool is_in_use(const char *name);

}  // namespace jobq
