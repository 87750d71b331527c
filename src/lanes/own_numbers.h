// Computes the numbers that a row of jobq.jobs should contain in this database, such as the number of its lane
// (row/numbers.h). The numbers are hashes with a secret of the database. A row that comes from another database
// contains different numbers, unless a trigger has computed its numbers again.
#pragma once

#include "compat/pg.h"
#include "job/change_job.h"

namespace jobq {

struct OwnNumbers {
    JobState found;                  // the job with the numbers in its row
    core::Life life;                 // the life of the job with the numbers of this database
    int64 lane;                      // the lane, computed from the texts in the row
    core::OptInt64 round_robin_key;  // the round-robin key, computed from the text in the row, if any
    bool differ;                     // whether these numbers differ from the numbers in the row
};
OwnNumbers own_numbers(HeapTuple row, TupleDesc desc);

}  // namespace jobq
