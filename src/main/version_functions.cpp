// The SQL functions jobq_version(), which returns the version of the library, and jobq_require_library(), which checks
// that the library is new enough for the extension.
#include "compat/pg.h"

#include "compat/library_version.h"
#include "processes/extension.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_version);
PGDLLEXPORT Datum jobq_version(PG_FUNCTION_ARGS) {
    (void)fcinfo;
    PG_RETURN_TEXT_P(cstring_to_text(kLibraryVersion));
}

// Raises an error if the library is older than the extension. Each extension script calls this function first. At that
// point, pg_extension already contains the version that the script creates.
PG_FUNCTION_INFO_V1(jobq_require_library);
PGDLLEXPORT Datum jobq_require_library(PG_FUNCTION_ARGS) {
    (void)fcinfo;
    const InstalledExtension extension = installed_extension();
    require_library(extension.version, psprintf("version %s of the extension", extension.version));
    PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace jobq
