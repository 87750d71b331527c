// The version of this library, and checks for incompatible versions.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The version in jobq.control at build time.
extern const char *const kLibraryVersion;

// Raises 55000 if the library is older than `version`. `who` describes what requires this version, for the error
// message.
void require_library(const char *version, const char *who);

// These functions ensure that the process loads only one jobq library file, because two files would not share settings
// or shared memory. _PG_init calls require_only_library() first, which raises 55000 if another file has been loaded.
// It calls be_only_library() last.
void require_only_library();
void be_only_library();

}  // namespace jobq
