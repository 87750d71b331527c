// Searches the table for running jobs that have neither an entry in the rescue index nor a young lease, for example
// after a crash or after a restore with disabled triggers. Only the rescue may call these functions.
#pragma once

#include "compat/pg.h"
#include "compat/subtransaction.h"

namespace jobq {

struct UnindexedSearch {
    // true if the table was read, which happens if rows might have bypassed the triggers. In this case, the horizon
    // might be wrong
    bool looked;
    int64 left_out;       // a job that could not be marked, or 0 if all were marked
    FailureText failure;  // why it could not be marked
};
// Finds running jobs that have neither an entry in the rescue index nor a young lease, and adds them to the rescue
// index. Reads the whole table once after each server start and after each change to the triggers. Must be called
// inside with_spi().
UnindexedSearch find_unindexed_jobs();
// Returns the time at which to call find_unindexed_jobs() again.
TimestampTz next_search_for_unindexed();

}  // namespace jobq
