// The outcome of a duty, which is one of the periodic tasks of the background worker. A duty skips rows that it cannot
// change.
#pragma once

#include "compat/pg.h"
#include "compat/subtransaction.h"

namespace jobq {

// The outcome of one batch of a duty.
struct DutyOutcome {
    int64 done;       // number of jobs or other rows changed
    bool more;        // the batch was full, so the duty must be called again
    bool unread;      // pruning or the search for lanes has not reached the end and continues in the next round
    bool lapping;     // the slow pass of pruning over all finished jobs has not reached the end either
    bool goes_on;     // the duty continues in the next transaction because it is retiring lanes or searching for lanes
    int64 failed;     // number of rows that could not be changed and were skipped
    char error[200];  // error of the first skipped row: "job 17: ..."
};

// Records a job that could not be changed: increments `failed`, and stores the error if it is the first error.
void leave_out(DutyOutcome *outcome, int64 job, const FailureText &failure);

}  // namespace jobq
