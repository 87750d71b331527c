// The horizon of the rescue (shmem/horizon.h), as this session knows it.
#pragma once

#include "compat/pg.h"
#include "shmem/horizon.h"

namespace jobq {

// Returns the horizon of the rescue-indexed jobs, including the jobs that the current transaction has claimed.
Horizon horizon();
// Starts a read of all rescue-indexed jobs, whose result log_horizon() publishes unless other sessions publish earlier
// deadlines in the meantime. Returns 0 if the result must not be published, because the snapshot of the transaction is
// older than the read, or because there is no shared memory.
uint64 begin_horizon_scan();

}  // namespace jobq
