// The horizon of the rescue (shmem/horizon.h), as far as this session knows it, and how a look finds a new one.
#pragma once

#include "compat/pg.h"
#include "shmem/horizon.h"

namespace jobq {

// Of the rescue-indexed jobs, the current transaction's included.
Horizon horizon();
// A look at all rescue-indexed jobs begins, whose result log_horizon tells. What others publish in between goes
// first. 0: it shall not be told of, since the transaction's snapshot is older than the look, or nobody would be.
uint64 begin_horizon_scan();

}  // namespace jobq
