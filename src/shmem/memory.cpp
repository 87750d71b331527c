// See memory.h.
#include "compat/pg.h"

#include "shmem/memory.h"

extern "C" {
#include "storage/ipc.h"
#include "storage/shmem.h"
}

namespace jobq {

namespace {

constexpr char kTranche[] = "jobq";

const SharedPart *parts = nullptr;
int part_count = 0;
bool ready = false;
LWLockPadded *locks = nullptr;

shmem_request_hook_type previous_request_hook = nullptr;
shmem_startup_hook_type previous_startup_hook = nullptr;

void request_memory() {
    if (previous_request_hook != nullptr) previous_request_hook();
    for (const SharedPart *part = parts; part < parts + part_count; part++)
        RequestAddinShmemSpace(MAXALIGN(part->size()));
    RequestNamedLWLockTranche(kTranche, kLockCount);
}

void make_memory() {
    if (previous_startup_hook != nullptr) previous_startup_hook();
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    locks = GetNamedLWLockTranche(kTranche);
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

LWLock *shared_lock(Lock lock, int partition) { return &locks[static_cast<int>(lock) + partition].lock; }

}  // namespace jobq
