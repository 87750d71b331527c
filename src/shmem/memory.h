// The shared memory of jobq, there when the library is preloaded: each part of src/shared has its own piece, sized by
// settings that only a restart changes, and its own locks. Without preload every function of src/shared is a harmless
// no-op.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "storage/lwlock.h"
}

namespace jobq {

// Registers the hooks that reserve and create the shared memory. Called by _PG_init while preloading.
void request_shared_memory();

// True when the library was preloaded.
bool shared_memory_ready();

// The locks of one tranche, "jobq", in the order in which they may be taken; where many sessions meet, one for each
// partition.
constexpr int kLockPartitions = 16;
enum class Lock {
    Slots,
    Counters,
    Prepared,
    Notices,
    Waiters,
    Marks = Waiters + kLockPartitions,
    Leases = Marks + kLockPartitions,
    JobWaiters = Leases + kLockPartitions,
    Limits = JobWaiters + kLockPartitions,
    Parked = Limits + kLockPartitions,
    Unblock,
    Watched,
    RecentFilters,
    WakeNotes
};
constexpr int kLockCount = static_cast<int>(Lock::WakeNotes) + 1;
LWLock *shared_lock(Lock lock, int partition = 0);

}  // namespace jobq
