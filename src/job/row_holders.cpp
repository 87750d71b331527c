// See row_holders.h.
#include "compat/pg.h"

#include "job/row_holders.h"
#include "table/table.h"

extern "C" {
#include "access/heapam.h"
#include "access/multixact.h"
#include "storage/procarray.h"
}

namespace jobq {

namespace {

void add_holder(RowHolders *holders, TransactionId xid) {
    if (holders->count == kMaxHolders || TransactionIdIsCurrentTransactionId(xid) || !TransactionIdIsInProgress(xid))
        return;
    holders->xids[holders->count++] = xid;
}

}  // namespace

RowHolders holders_of_row(Oid table, Datum place) {
    RowHolders holders = {};
    HeapTupleHeaderData header;
    if (!read_row_header(table, *reinterpret_cast<ItemPointer>(DatumGetPointer(place)), GetActiveSnapshot(), &header) ||
        (header.t_infomask & HEAP_XMAX_INVALID) != 0)
        return holders;
    const TransactionId xmax = HeapTupleHeaderGetRawXmax(&header);
    if ((header.t_infomask & HEAP_XMAX_IS_MULTI) != 0) {
        MultiXactMember *members;
        const int count = GetMultiXactIdMembers(xmax, &members, false, HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask));
        for (int i = 0; i < count; i++) add_holder(&holders, members[i].xid);
    } else {
        add_holder(&holders, xmax);
    }
    return holders;
}

}  // namespace jobq
