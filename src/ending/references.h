// Whether jobs can be deleted, as far as tables go that follow jobq's by a foreign key.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Before much is done that ends with deleting jobs: raises what the statements that delete would raise (55000,
// compat/followers.h).
void require_deletable_jobs();

}  // namespace jobq
