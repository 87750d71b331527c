// See row_holders.h.
#include "compat/pg.h"

#include "row/row_holders.h"
#include "table/table.h"

extern "C" {
#include "access/heapam.h"
#include "access/multixact.h"
#include "storage/procarray.h"
}

namespace jobq {

namespace {

// If the transaction is in progress and is not the current transaction, adds it to the holders and returns true.
bool add_holder(RowHolders *holders, TransactionId xid) {
    if (TransactionIdIsCurrentTransactionId(xid) || !TransactionIdIsInProgress(xid)) return false;
    if (holders->count < kMaxHolders) holders->xids[holders->count++] = xid;
    return true;
}

}  // namespace

RowHolders holders_of_row(Oid table, Datum place) {
    RowHolders holders = {};
    HeapTupleHeaderData header;
    if (!read_row_header(table, *reinterpret_cast<ItemPointer>(DatumGetPointer(place)), GetActiveSnapshot(), &header) ||
        (header.t_infomask & HEAP_XMAX_INVALID) != 0 || keeps_keys_only(header))
        return holders;
    const TransactionId xmax = HeapTupleHeaderGetRawXmax(&header);
    if ((header.t_infomask & HEAP_XMAX_IS_MULTI) != 0) {
        MultiXactMember *members;
        const int count = GetMultiXactIdMembers(xmax, &members, false, HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask));
        // Checks each member separately, because the multixact can still indicate a lock stronger than FOR KEY SHARE
        // after the member with that lock has ended.
        bool held = false;
        for (int i = 0; i < count; i++)
            held |= add_holder(&holders, members[i].xid) && members[i].status != MultiXactStatusForKeyShare;
        if (!held) holders.count = 0;
    } else {
        add_holder(&holders, xmax);
    }
    return holders;
}

}  // namespace jobq
