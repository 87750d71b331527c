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

// `xid`: of a transaction or of a savepoint's. May read the disk, allocate, and raise an error: not for signal
// handlers, not while a lock in shared memory is held, and not in callbacks from Phase::Prepare on. What the server has
// forgotten is not asked for, as in its pg_xact_status().
Fate fate_of(TransactionId xid);

}  // namespace jobq
