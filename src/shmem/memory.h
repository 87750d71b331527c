// The shared memory of jobq, there when the library is preloaded: each part has its own piece, sized by settings that
// only a restart changes, and its own locks. Without preload every function that uses it is a harmless no-op.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "storage/lwlock.h"
}

namespace jobq {

// A piece of the shared memory. make() is called with the lock held by which pieces are made; `fresh` in the process
// that makes them, not in those that attach to what is there.
struct SharedPart {
    const char *name;
    Size (*size)();
    void (*make)(void *memory, bool fresh);
};

// Registers the hooks that reserve and create the shared memory. Called by _PG_init while preloading; the array stays.
void request_shared_memory(const SharedPart *all, int count);

// True when the library was preloaded.
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
// Where many sessions meet, a table has one lock for each of its partitions.
constexpr int kLockPartitions = 16;
LWLock *shared_lock(Lock lock, int partition = 0);

}  // namespace jobq
