// See row_holders.h.
#include "pg/pg.h"

#include "store/jobs_table.h"
#include "store/row_holders.h"

extern "C" {
#include "access/heapam.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
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

RowHolders holders_of_row(Datum place) {
    RowHolders holders = {};
    JobsTable jobs;
    open_jobs_for_reading(&jobs);
    ItemPointerData tid = *reinterpret_cast<ItemPointer>(DatumGetPointer(place));
    if (table_tuple_fetch_row_version(jobs.table.relation, &tid, GetActiveSnapshot(), jobs.table.row)) {
        const HeapTupleHeaderData header = header_of_row(jobs.table);
        const TransactionId xmax = HeapTupleHeaderGetRawXmax(&header);
        if ((header.t_infomask & HEAP_XMAX_INVALID) != 0) {
            // Nobody.
        } else if ((header.t_infomask & HEAP_XMAX_IS_MULTI) != 0) {
            MultiXactMember *members;
            const int count = GetMultiXactIdMembers(xmax, &members, false, HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask));
            for (int i = 0; i < count; i++) add_holder(&holders, members[i].xid);
        } else {
            add_holder(&holders, xmax);
        }
    }
    close_jobs_for_reading(&jobs);
    return holders;
}

}  // namespace jobq
