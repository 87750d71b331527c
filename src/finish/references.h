// Checks whether jobs can be deleted, because tables of the user may reference jobq's tables with foreign keys.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Raises the error that deleting jobs would raise (55000, compat/followers.h), so that a call fails before it does much
// work in vain.
void require_deletable_jobs();

}  // namespace jobq
