// The argument `filter` of operations on many jobs: conditions that have no argument of their own.
#pragma once

#include "admin/operate.h"
#include "compat/pg.h"

namespace jobq {

// Adds the keys of the argument to the filter. Raises 22023 for an unknown key, for a key that is an argument of its
// own, and for a value of the wrong JSON type, including null. The context names the key.
void read_filter_keys(const Jsonb *keys, JobFilter *filter);

}  // namespace jobq
