// Finds the transactions in progress that have locked or changed the row of a job. Claims skip such a job.
#pragma once

#include "compat/pg.h"

namespace jobq {

constexpr int kMaxHolders = 8;
struct RowHolders {
    TransactionId xids[kMaxHolders];
    int count;  // at most kMaxHolders, even if there are more
};

// Returns the transactions that hold the row version with this tableoid and ctid, if the active snapshot sees this
// version.
RowHolders holders_of_row(Oid table, Datum place);

}  // namespace jobq
