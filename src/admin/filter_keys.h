// Reads the argument `filter` of operations on many jobs: a jsonb object with the conditions for which there is no
// separate argument.
#pragma once

#include "admin/operate.h"
#include "compat/pg.h"

namespace jobq {

// Adds the conditions in the argument to the filter. Raises 22023 for an unknown key, for a condition that has a
// separate argument, and for a value of the wrong JSON type, including null. The error context names the key.
void read_filter_keys(const Jsonb *keys, JobFilter *filter);

}  // namespace jobq
