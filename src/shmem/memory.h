// The shared memory of jobq, which exists only if the library is preloaded. Each part has its own segment and its own
// locks. The size of a segment depends on settings that can be changed only with a restart. If the library is not
// preloaded, every function that uses shared memory is a harmless no-op.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "storage/lwlock.h"
}

namespace jobq {

// The parts of the shared memory, in the order in which a process may acquire their locks. A process that holds a lock
// of one part may acquire only locks of later parts.
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
    ConnectedWorkers,
    WakeNotes,
    Executors,
    RoundRobin,
    LineStarts,
    RecentClaims,
    Successions,
    DataDirectory
};
constexpr int kPartCount = static_cast<int>(Part::DataDirectory) + 1;

// How full a table in shared memory is.
struct SharedUsage {
    int64 entries;
    int64 capacity;   // 0: a setting has switched the table off
    int64 evictions;  // kNeverEvicts, or see note_evictions()
};
constexpr int64 kNeverEvicts = -1;

// A part of the shared memory. make() is called while AddinShmemInitLock is held. `fresh` is true in the process that
// creates the part, in which the memory is all zero, and false in processes that attach to it.
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

// Registers the hooks that reserve and create the shared memory. _PG_init calls this function while the library is
// being preloaded. The array must stay valid.
void request_shared_memory(const SharedParts &all);

// Returns whether the library was preloaded.
bool shared_memory_ready();
// Returns the array of all parts. Call this function only if the library was preloaded.
const SharedParts &shared_parts();

// Number of locks for a table that many sessions use at the same time: one lock per partition of the table.
constexpr int kLockPartitions = 16;
LWLock *shared_lock(Part part, int partition = 0);

// Counts entries that were lost although they were still needed: a table was full, so they were overwritten or not
// stored. Does nothing if the library is not preloaded.
void note_evictions(Part part, int count = 1);
int64 evictions(Part part);

}  // namespace jobq
