// The version of this library, and checks against incompatible versions.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The version in jobq.control at build time.
extern const char *const kLibraryVersion;

// Raises 55000 if the library is older than this version. `who` is the name of the object that needs it, for the
// message.
void require_library(const char *version, const char *who);

// Raises 55000 if the process has already loaded another jobq library file, because the two would not share settings
// and shared memory. _PG_init calls require_only_library() first and be_only_library() last.
void require_only_library();
void be_only_library();

}  // namespace jobq
