// The shared memory of jobq, which exists only if the library is preloaded: each part has its own piece, sized by
// settings that only a restart changes, and its own locks. Without preload every function that uses it is a harmless
// no-op.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "storage/lwlock.h"
}

namespace jobq {

// A piece of the shared memory. make() is called while AddinShmemInitLock is held. `fresh` is true in the process that
// creates the piece, and false in processes that attach to it.
struct SharedPart {
    const char *name;
    Size (*size)();
    void (*make)(void *memory, bool fresh);
};

// Registers the hooks that reserve and create the shared memory. _PG_init calls it while preloading. The array must
// stay valid.
void request_shared_memory(const SharedPart *all, int count);

// Returns whether the library was preloaded.
bool shared_memory_ready();

// The locks, in the order in which a process may acquire them. pg_stat_activity shows the tranche that a session waits
// for.
enum class Lock {
    DatabaseStates,
    Prepared,
    Counters,
    Totals,
    Notices,
    Waiters,
    LaneRanges,
    Leases,
    JobWaiters,
    Limits,
    Throttled,
    Unblock,
    AwaitedJobs,
    RecentFilters,
    WakeNotes,
    Executors
};
// Number of locks of a table that many sessions use at the same time, one for each of its partitions.
constexpr int kLockPartitions = 16;
LWLock *shared_lock(Lock lock, int partition = 0);

}  // namespace jobq
