// The extension as seen from inside a database: is it there, whose is it, which version.
// Who may call it: step.cpp and main/version_functions.cpp, inside a transaction.
#pragma once

#include "compat/pg.h"
#include "shmem/database_state.h"

namespace jobq {

struct InstalledExtension {
    Oid oid;  // InvalidOid: not there
    Oid owner;
    char version[kVersionBytes];
};

// As this transaction sees it.
InstalledExtension installed_extension();

// Looks for the extension and locks it against DROP EXTENSION until the end of the transaction, so that what runs
// afterwards finds all its tables. Waits for a DROP EXTENSION that is going on, as long as lock_timeout allows.
InstalledExtension lock_extension();

}  // namespace jobq
