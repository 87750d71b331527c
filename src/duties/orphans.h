// Jobs that run under a lease of an executor (shmem/executors.h) that no living executor has: its process has gone, the
// server has crashed, was restarted or promoted, or the rows are of another one. Who may call it: rescue.cpp.
#pragma once

#include "compat/pg.h"
#include "duties/running_ids.h"
#include "handlers/executor_policy.h"

namespace jobq {

struct Orphan {
    int64 job;
    core::OrphanEnd end;
};
struct Orphans {
    Orphan *items;
    int count;
};

// Locks them, at most `at_most`; those that somebody holds are left for later. Without `search` only those that the
// slots of executors tell of, which is next to free. Inside with_spi().
Orphans lock_orphans(const RunningIds *search, int at_most);

}  // namespace jobq
