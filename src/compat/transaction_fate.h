// Looks up the outcome of a transaction by its ID.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class Fate : uint8 {
    Open,
    Committed,
    Aborted,
    // The transaction ended so long ago that the server may have forgotten its outcome; its rows have been frozen or
    // removed.
    Forgotten,
};

// Returns the outcome of a transaction or subtransaction. May read from disk, allocate memory, and raise an error, so
// do not call this function in signal handlers, while you hold a lock in shared memory, or in Phase::Prepare and later
// phases. Like pg_xact_status(), it never looks up a transaction whose outcome the server might have forgotten.
Fate fate_of(TransactionId xid);

}  // namespace jobq
