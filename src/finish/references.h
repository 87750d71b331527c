// Whether jobs can be deleted, given tables that follow jobq's tables by a foreign key.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Raises the error that deleting jobs would raise (55000, compat/followers.h), before much work is done that would end
// with it.
void require_deletable_jobs();

}  // namespace jobq
