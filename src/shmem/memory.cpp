// See memory.h.
#include "compat/pg.h"

#include "shmem/memory.h"

extern "C" {
#include "storage/ipc.h"
#include "storage/shmem.h"
}

namespace jobq {

namespace {

struct Tranche {
    const char *name;
    int locks;
};

// In the order of Lock.
constexpr Tranche kTranches[] = {
    {"JobqDatabases", 1},
    {"JobqPrepared", 1},
    {"JobqCounters", 1},
    {"JobqTotals", 1},
    {"JobqNotices", 1},
    {"JobqWaiters", kLockPartitions},
    {"JobqLanes", kLockPartitions},
    {"JobqLeases", kLockPartitions},
    {"JobqJobWaiters", kLockPartitions},
    {"JobqLimits", kLockPartitions},
    {"JobqThrottledRanges", kLockPartitions},
    {"JobqUnblocked", 1},
    {"JobqAwaitedJobs", 1},
    {"JobqRecentFilters", 1},
    {"JobqWakeNotes", 1},
    {"JobqExecutors", 1},
};
constexpr int kTrancheCount = lengthof(kTranches);
static_assert(kTrancheCount == static_cast<int>(Lock::Executors) + 1);

const SharedPart *parts = nullptr;
int part_count = 0;
bool ready = false;
LWLockPadded *locks[kTrancheCount];

shmem_request_hook_type previous_request_hook = nullptr;
shmem_startup_hook_type previous_startup_hook = nullptr;

void request_memory() {
    if (previous_request_hook != nullptr) previous_request_hook();
    for (const SharedPart *part = parts; part < parts + part_count; part++)
        RequestAddinShmemSpace(MAXALIGN(part->size()));
    for (const Tranche &tranche : kTranches) RequestNamedLWLockTranche(tranche.name, tranche.locks);
}

void make_memory() {
    if (previous_startup_hook != nullptr) previous_startup_hook();
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    for (int i = 0; i < kTrancheCount; i++) locks[i] = GetNamedLWLockTranche(kTranches[i].name);
    for (const SharedPart *part = parts; part < parts + part_count; part++) {
        bool found;
        void *memory = ShmemInitStruct(part->name, part->size(), &found);
        part->make(memory, !found);
    }
    ready = true;
    LWLockRelease(AddinShmemInitLock);
}

}  // namespace

void request_shared_memory(const SharedPart *all, int count) {
    parts = all;
    part_count = count;
    previous_request_hook = shmem_request_hook;
    shmem_request_hook = request_memory;
    previous_startup_hook = shmem_startup_hook;
    shmem_startup_hook = make_memory;
}

bool shared_memory_ready() { return ready; }

LWLock *shared_lock(Lock lock, int partition) { return &locks[static_cast<int>(lock)][partition].lock; }

}  // namespace jobq
