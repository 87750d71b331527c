// Who holds the row of a job, so that claims pass over it: the transactions that have locked or changed it and go on.
#pragma once

#include "compat/pg.h"

namespace jobq {

constexpr int kMaxHolders = 8;
struct RowHolders {
    TransactionId xids[kMaxHolders];
    int count;  // as many as there is room for
};

// Of the version of a row at this place (its tableoid and ctid), which the active snapshot sees.
RowHolders holders_of_row(Oid table, Datum place);

}  // namespace jobq
