// The shared memory of jobq, which exists only if the library is preloaded: each part has its own segment and its own
// locks. The size of a segment depends on settings that only a restart changes. Without preload every function that
// uses it is a harmless no-op.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "storage/lwlock.h"
}

namespace jobq {

// The parts. A process that holds a lock of one part may only acquire locks of later parts in this list.
enum class Part {
    Databases,
    Prepared,
    Counters,
    Totals,
    Notices,
    Waiters,
    EmptyRanges,
    YoungLeases,
    JobWaiters,
    Limits,
    ThrottledRanges,
    Unblocked,
    AwaitedJobs,
    RecentFilters,
    WakeNotes,
    Executors,
    RoundRobin,
    LineStarts,
    RecentClaims,
    Successions,
    DataDirectory
};
constexpr int kPartCount = static_cast<int>(Part::DataDirectory) + 1;

// The usage of a table in shared memory.
struct SharedUsage {
    int64 entries;
    int64 capacity;   // 0: a setting has switched the table off
    int64 evictions;  // kNeverEvicts, or see note_evictions()
};
constexpr int64 kNeverEvicts = -1;

// make() is called while AddinShmemInitLock is held. `fresh` is true in the process that creates the part, and false in
// processes that attach to it.
struct SharedPart {
    Part part;
    int locks;
    const char *name;     // in pg_shmem_allocations
    const char *tranche;  // of its LWLocks, in pg_stat_activity; nullptr: it has none
    Size (*size)();
    void (*make)(void *memory, bool fresh);
    SharedUsage (*usage)();  // nullptr: the part is not a table
};
using SharedParts = SharedPart[kPartCount];

constexpr bool in_order(const SharedParts &parts) {
    for (int i = 0; i < kPartCount; i++)
        if (static_cast<int>(parts[i].part) != i) return false;
    return true;
}

// Registers the hooks that reserve and create the shared memory. _PG_init calls it while preloading. The array must
// stay valid.
void request_shared_memory(const SharedParts &all);

// Returns whether the library was preloaded.
bool shared_memory_ready();
// Call it only if the library was preloaded.
const SharedParts &shared_parts();

// Number of locks for a table that many sessions use at the same time: one lock per partition of the table.
constexpr int kLockPartitions = 16;
LWLock *shared_lock(Part part, int partition = 0);

// Counts needed entries that were lost because a table was full: they were overwritten or not stored. Does nothing
// without preload.
void note_evictions(Part part, int count = 1);
int64 evictions(Part part);

}  // namespace jobq
