// What became of a transaction of which only the number is known.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class Fate : uint8 {
    Open,
    Committed,
    Aborted,
    Forgotten,  // ended so long ago that the server need not know any more: what it has written is frozen, or gone
};

// `xid`: of a transaction or of a savepoint's. Takes a lock of the server's: not for signal handlers, nor while a
// spinlock is held. What the server has forgotten is not asked for, as in its pg_xact_status().
Fate fate_of(TransactionId xid);

}  // namespace jobq
