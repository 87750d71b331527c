// See library_version.h. When the version changes, only this file must be recompiled.
#include "compat/pg.h"

#include "compat/library_version.h"
#include "core/version.h"

// PostgreSQL 18 and later show the module's name and version in pg_get_loaded_modules().
extern "C" {
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "jobq", .version = JOBQ_VERSION);
#else
PG_MODULE_MAGIC;
#endif
}

namespace jobq {

namespace {

// Returns a pointer to a variable that all libraries of the process share. The variable points to the version of the
// jobq library that has been loaded.
void **loaded_library() { return find_rendezvous_variable("jobq library"); }

}  // namespace

const char *const kLibraryVersion = JOBQ_VERSION;

void require_library(const char *version, const char *who) {
    if (core::compare_versions(kLibraryVersion, version) >= 0) return;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("%s requires version %s or newer of the jobq library, but this session has loaded version %s", who,
                    version, kLibraryVersion),
             errhint("Install that version or a newer one. Then restart the server if it preloads jobq; otherwise, "
                     "reconnect.")));
}

void require_only_library() {
    const auto *other = static_cast<const char *>(*loaded_library());
    if (other == nullptr) return;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("cannot load version %s of the jobq library because version %s is already loaded from another file",
                    kLibraryVersion, other),
             errhint("In \"shared_preload_libraries\", use the value of \"module_pathname\" from jobq.control, and "
                     "restart the server.")));
}

void be_only_library() { *loaded_library() = const_cast<char *>(kLibraryVersion); }

}  // namespace jobq
