// The argument `filter` of operations on many jobs: what they filter by and have no argument of its own for.
#pragma once

#include "admin/operate.h"
#include "compat/pg.h"

namespace jobq {

// Adds the keys of the argument to the filter. Raises 22023 for a key that the filter does not have or that is an
// argument, and for a value of the wrong JSON type, which null is. The context names the key.
void read_filter_keys(const Jsonb *keys, JobFilter *filter);

}  // namespace jobq
