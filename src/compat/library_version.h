// The version of this library, and what must not go together with it.
#pragma once

#include "compat/pg.h"

namespace jobq {

// That of jobq.control when it was built.
extern const char *const kLibraryVersion;

// 55000 unless the library is of this version or a newer one. `who`: what needs it.
void require_library(const char *version, const char *who);

// 55000 when this process has a jobq library already, from another file: the two would know nothing of each other's
// settings and shared memory. Called by _PG_init, first and last.
void require_only_library();
void be_only_library();

}  // namespace jobq
