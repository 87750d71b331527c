// The horizon of the rescue (shmem/horizon.h) as this session sees it: the time before which no lease of a
// rescue-indexed job expires.
#pragma once

#include "compat/pg.h"
#include "shmem/horizon.h"

namespace jobq {

// Returns the horizon of the rescue-indexed jobs, which include the jobs that the current transaction has claimed.
Horizon horizon();
// Starts a scan of all rescue-indexed jobs to compute the horizon again. Returns a ticket for log_horizon(), which
// publishes the result unless other sessions publish earlier deadlines during the scan. Returns 0 if the result must
// not be published because the snapshot of the transaction is older than the scan, or because there is no shared
// memory.
uint64 begin_horizon_scan();

}  // namespace jobq
