// What a duty has come to, which may leave out what it cannot change.
#pragma once

#include "compat/pg.h"
#include "compat/subtransaction.h"

namespace jobq {

// What one batch of a duty did.
struct DutyOutcome {
    int64 done;       // jobs (or rows) changed
    bool more;        // a full batch: call again
    bool unread;      // the prune, or the search for lanes, has not walked to the end; the next round goes on there
    bool lapping;     // nor has its slow lap
    bool goes_on;     // in the next transaction: lanes are being retired, or looked for
    int64 failed;     // rows that could not be changed and were left out
    char error[200];  // why, of the first of them: "job 17: ..."
};

// Counts a job that could not be changed, and keeps why, if it is the first.
void leave_out(DutyOutcome *outcome, int64 job, const FailureText &failure);

}  // namespace jobq
