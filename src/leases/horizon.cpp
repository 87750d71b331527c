// See horizon.h.
#include "compat/pg.h"

#include "job/logged.h"
#include "leases/horizon.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

Horizon horizon() {
    const Slot *slot = known_session_slot();
    if (slot == nullptr) return kUnknownHorizon;
    LWLockAcquire(slots_lock(), LW_SHARED);
    Horizon known = slot->horizon;
    LWLockRelease(slots_lock());
    const LoggedRound &own = transaction_log().round;
    if (own.any) known.deadline = Min(known.deadline, own.lease_deadline);
    return known;
}

uint64 begin_horizon_scan() {
    if (IsolationUsesXactSnapshot() || !shared_memory_ready() || !IsUnderPostmaster) return 0;
    Slot *slot = session_slot();
    if (slot == nullptr) return 0;
    LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
    slot->horizon_version = ++shared_state()->horizon_versions;
    slot->horizon = kUnknownHorizon;
    const uint64 version = slot->horizon_version;
    LWLockRelease(slots_lock());
    return version;
}

}  // namespace jobq
