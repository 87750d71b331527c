// Jobs that run under a lease of an executor (shmem/executors.h) that no living executor has: its process has gone, the
// server has crashed, was restarted or promoted, or the rows are of another one. Who may call it: rescue.cpp.
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

// Locks orphans, at most `at_most`, and leaves those that other transactions hold for later. Without `search`, only
// looks at leases in the slots of executors, which costs almost nothing. Must be called inside with_spi().
Orphans lock_orphans(const RunningIds *search, int at_most);

}  // namespace jobq
