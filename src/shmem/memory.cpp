// See memory.h.
#include "compat/pg.h"

#include "shmem/memory.h"

extern "C" {
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
}

namespace jobq {

namespace {

struct Evictions {
    pg_atomic_uint64 counts[kPartCount];
};

const SharedParts *parts = nullptr;
bool ready = false;
LWLockPadded *locks[kPartCount];
Evictions *evicted = nullptr;

shmem_request_hook_type previous_request_hook = nullptr;
shmem_startup_hook_type previous_startup_hook = nullptr;

void request_memory() {
    if (previous_request_hook != nullptr) previous_request_hook();
    RequestAddinShmemSpace(MAXALIGN(sizeof(Evictions)));
    for (const SharedPart &part : *parts) {
        RequestAddinShmemSpace(MAXALIGN(part.size()));
        if (part.locks > 0) RequestNamedLWLockTranche(part.tranche, part.locks);
    }
}

void make_memory() {
    if (previous_startup_hook != nullptr) previous_startup_hook();
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    bool found;
    evicted = static_cast<Evictions *>(ShmemInitStruct("jobq evictions", sizeof(Evictions), &found));
    for (pg_atomic_uint64 &count : evicted->counts)
        if (!found) pg_atomic_init_u64(&count, 0);
    for (const SharedPart &part : *parts) {
        if (part.locks > 0) locks[static_cast<int>(part.part)] = GetNamedLWLockTranche(part.tranche);
        void *memory = ShmemInitStruct(part.name, part.size(), &found);
        if (!found) memset(memory, 0, part.size());
        part.make(memory, !found);
    }
    ready = true;
    LWLockRelease(AddinShmemInitLock);
}

}  // namespace

void request_shared_memory(const SharedParts &all) {
    parts = &all;
    previous_request_hook = shmem_request_hook;
    shmem_request_hook = request_memory;
    previous_startup_hook = shmem_startup_hook;
    shmem_startup_hook = make_memory;
}

bool shared_memory_ready() { return ready; }

const SharedParts &shared_parts() { return *parts; }

LWLock *shared_lock(Part part, int partition) { return &locks[static_cast<int>(part)][partition].lock; }

void note_evictions(Part part, int count) {
    if (ready) pg_atomic_fetch_add_u64(&evicted->counts[static_cast<int>(part)], count);
}

int64 evictions(Part part) { return static_cast<int64>(pg_atomic_read_u64(&evicted->counts[static_cast<int>(part)])); }

}  // namespace jobq
