// See memory.h.
#include "compat/pg.h"

#include "claim/recent_claims.h"
#include "claim/round_robin.h"
#include "edges/awaited_jobs.h"
#include "groups/unblocked_list.h"
#include "lanes/empty_ranges.h"
#include "leases/young_leases.h"
#include "limits/limit_state.h"
#include "limits/throttled_ranges.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "stats/counters.h"
#include "stats/recent_filters.h"
#include "wait/job_waiters.h"
#include "wait/notices.h"
#include "wait/prepared.h"
#include "wait/waiters.h"
#include "wait/wake_notes.h"

extern "C" {
#include "storage/ipc.h"
#include "storage/shmem.h"
}

namespace jobq {

namespace {

constexpr char kTranche[] = "jobq";

// A piece of the shared memory. make() is called with the lock held by which pieces are made; `fresh` in the process
// that makes them, not in those that attach to what is there.
struct Part {
    const char *name;
    Size (*size)();
    void (*make)(void *memory, bool fresh);
};
constexpr Part kParts[] = {
    {"jobq marks", marks_size, make_marks},
    {"jobq leases", leases_size, make_leases},
    {"jobq claimed", claimed_size, make_claimed},
    {"jobq notices", notices_size, make_notices},
    {"jobq waiters", waiters_size, make_waiters},
    {"jobq job waiters", job_waiters_size, make_job_waiters},
    {"jobq limits", limits_size, make_limits},
    {"jobq parked", parked_size, make_parked},
    {"jobq slots", slots_size, make_slots},
    {"jobq counters", counters_size, make_counters},
    {"jobq prepared", prepared_size, make_prepared},
    {"jobq turns", turns_size, make_turns},
    {"jobq unblock", unblock_size, make_unblock},
    {"jobq watched", watched_size, make_watched},
    {"jobq recent filters", recent_filters_size, make_recent_filters},
    {"jobq wake notes", wake_notes_size, make_wake_notes},
};

bool ready = false;
LWLockPadded *locks = nullptr;

shmem_request_hook_type previous_request_hook = nullptr;
shmem_startup_hook_type previous_startup_hook = nullptr;

void request_memory() {
    if (previous_request_hook != nullptr) previous_request_hook();
    for (const Part &part : kParts) RequestAddinShmemSpace(MAXALIGN(part.size()));
    RequestNamedLWLockTranche(kTranche, kLockCount);
}

void make_memory() {
    if (previous_startup_hook != nullptr) previous_startup_hook();
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    locks = GetNamedLWLockTranche(kTranche);
    for (const Part &part : kParts) {
        bool found;
        void *memory = ShmemInitStruct(part.name, part.size(), &found);
        part.make(memory, !found);
    }
    ready = true;
    LWLockRelease(AddinShmemInitLock);
}

}  // namespace

void request_shared_memory() {
    previous_request_hook = shmem_request_hook;
    shmem_request_hook = request_memory;
    previous_startup_hook = shmem_startup_hook;
    shmem_startup_hook = make_memory;
}

bool shared_memory_ready() { return ready; }

LWLock *shared_lock(Lock lock, int partition) { return &locks[static_cast<int>(lock) + partition].lock; }

}  // namespace jobq
