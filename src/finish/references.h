// Checks whether jobs can be deleted. Foreign keys in user-defined tables that reference jobq's tables can prevent the
// deletion.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Raises the error that deleting jobs would raise (55000, compat/followers.h), so that a call fails before it does work
// that would be rolled back.
void require_deletable_jobs();

}  // namespace jobq
