// Finds orphans, which are jobs in status "processing" with the lease of an executor (handlers/executor_slots.h) that
// no longer exists: the process has exited, the server has crashed or was restarted or promoted, or the rows come from
// another server. Only rescue.cpp may call this function.
#pragma once

#include "compat/pg.h"
#include "handlers/executor_policy.h"
#include "leases/running_ids.h"

namespace jobq {

// A running job whose row is locked, and how its attempt ends.
struct RescuedAttempt {
    int64 job;
    core::RescueEnd end;
};
struct Orphans {
    RescuedAttempt *items;
    int count;
};

// Locks at most `at_most` orphans, and skips rows that other transactions have locked. If `search` is nullptr, checks
// only the leases in the slots of executors, which costs almost nothing. Must be called inside with_spi().
Orphans lock_orphans(const RunningIds *search, int at_most);

}  // namespace jobq
