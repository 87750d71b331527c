// The outcome of a transaction, by its transaction ID.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class Fate : uint8 {
    Open,
    Committed,
    Aborted,
    // ended so long ago that the server may have forgotten the outcome; its rows have been frozen or removed
    Forgotten,
};

// Returns the outcome of a transaction or subtransaction. May read from disk, allocate memory, and raise an error. So
// do not call it in signal handlers, while a lock in shared memory is held, or in Phase::Prepare and later phases. Like
// pg_xact_status(), it never looks up a transaction that the server may have forgotten.
Fate fate_of(TransactionId xid);

}  // namespace jobq
