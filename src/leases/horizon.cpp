// See horizon.h.
#include "compat/pg.h"

#include "leases/horizon.h"
#include "log/logged.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

Horizon horizon() {
    const DatabaseState *db = known_session_database();
    if (db == nullptr) return kUnknownHorizon;
    LWLockAcquire(database_states_lock(), LW_SHARED);
    Horizon known = db->horizon;
    LWLockRelease(database_states_lock());
    const LoggedRound &own = transaction_log().round;
    if (own.any) known.deadline = Min(known.deadline, own.lease_deadline);
    return known;
}

uint64 begin_horizon_scan() {
    if (IsolationUsesXactSnapshot() || !shared_memory_ready() || !IsUnderPostmaster) return 0;
    DatabaseState *db = session_database();
    if (db == nullptr) return 0;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->horizon_version = ++shared_state()->horizon_versions;
    db->horizon = kUnknownHorizon;
    const uint64 version = db->horizon_version;
    LWLockRelease(database_states_lock());
    return version;
}

}  // namespace jobq
