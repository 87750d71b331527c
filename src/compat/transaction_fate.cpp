// See transaction_fate.h.
#include "compat/pg.h"

#include "compat/transaction_fate.h"

extern "C" {
#include "storage/lwlock.h"
#include "storage/procarray.h"
}

namespace jobq {

Fate fate_of(TransactionId xid) {
    // This assertion fails if the caller holds an LWLock or if the transaction is committing or aborting, because the
    // server then holds off interrupts.
    Assert(INTERRUPTS_CAN_BE_PROCESSED());
    if (!TransactionIdIsNormal(xid)) return Fate::Forgotten;
    if (TransactionIdIsInProgress(xid)) return Fate::Open;
    // The server does not truncate the commit log while a process holds XactTruncationLock.
    LWLockAcquire(XactTruncationLock, LW_SHARED);
    Fate fate = Fate::Forgotten;
    if (!TransactionIdPrecedes(xid, oldest_known_xid()))
        fate = TransactionIdDidCommit(xid) ? Fate::Committed : Fate::Aborted;
    LWLockRelease(XactTruncationLock);
    return fate;
}

}  // namespace jobq
