// Finds orphans: jobs in status "processing" with the lease of an executor (shmem/executors.h) that no longer exists,
// because the process has exited, because the server has crashed or was restarted or promoted, or because the rows come
// from another server. Only rescue.cpp may call this.
#pragma once

#include "compat/pg.h"
#include "core/executor.h"
#include "leases/running_ids.h"

namespace jobq {

struct Orphan {
    int64 job;
    core::OrphanEnd end;
};
struct Orphans {
    Orphan *items;
    int count;
};

// Locks at most `at_most` orphans, and skips rows that other transactions have locked. If `search` is nullptr, checks
// only the leases in the slots of executors, which costs almost nothing. Must be called inside with_spi().
Orphans lock_orphans(const RunningIds *search, int at_most);

}  // namespace jobq
