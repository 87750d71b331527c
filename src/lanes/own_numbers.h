// The numbers that a row of jobq.jobs should carry in this database. A row brings other numbers if it comes from
// another database, which has another secret, and no trigger fires that makes the numbers again: row/numbers.h.
#pragma once

#include "compat/pg.h"
#include "job/change_job.h"

namespace jobq {

struct OwnNumbers {
    JobState found;                  // the job as its row has it
    core::Life life;                 // the same with the numbers of this database
    int64 lane;                      // computed from the words in the row
    core::OptInt64 round_robin_key;  // the same, if the row has one
    bool differ;                     // from the numbers in the row
};
OwnNumbers own_numbers(HeapTuple row, TupleDesc desc);

}  // namespace jobq
