// Looks up the extension in the current database: whether it exists, its owner, and its version. Only step.cpp and
// main/version_functions.cpp may call these functions, and only inside a transaction.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

struct InstalledExtension {
    Oid oid;  // InvalidOid if the extension does not exist
    Oid owner;
    char version[kVersionBytes];
};

// Returns the extension as this transaction sees it.
InstalledExtension installed_extension();

// Looks up the extension and locks it against DROP EXTENSION until the end of the transaction, so that later statements
// find all tables of the extension. If a DROP EXTENSION is in progress, waits for it, but no longer than lock_timeout.
InstalledExtension lock_extension();

}  // namespace jobq
