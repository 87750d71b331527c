// See dump_restore.h.
#include "compat/pg.h"

#include "compat/own_locks.h"
#include "compat/rights.h"
#include "compat/spi.h"
#include "duties/dump_restore.h"

extern "C" {
#include "storage/lmgr.h"
}

namespace jobq {

namespace {

constexpr int kLockTries = 5000;
constexpr long kLockPause = 1000;

// Selects the sessions that are still restoring a dump. If the activity of a session is hidden, the session counts as
// still restoring. The activity is hidden if the owner lacks pg_read_all_stats or if track_activities is off.
Statement find_busy = {
    R"(SELECT FROM pg_catalog.pg_locks l
            JOIN pg_catalog.pg_database b ON b.oid = l.database AND b.datname = pg_catalog.current_database()
            JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
       WHERE l.locktype = 'advisory' AND l.objsubid = $1 AND l.mode = 'ShareLock' AND l.granted
         AND (a.state = 'idle' AND a.state_change < pg_catalog.clock_timestamp() - interval '1 minute') IS NOT TRUE
       LIMIT 1)",
    {INT2OID},
    Planning::Free};

LOCKTAG restore_lock() { return own_lock(OwnLock::Restore, 0); }

}  // namespace

bool restores(Oid owner) { return !check_function_bodies && has_rights_of(owner); }

void note_restore() {
    const LOCKTAG tag = restore_lock();
    if (holds_lock(tag, ShareLock)) return;
    for (int i = 0; i < kLockTries; i++) {
        if (LockAcquire(&tag, ShareLock, true, true) != LOCKACQUIRE_NOT_AVAIL) return;
        CHECK_FOR_INTERRUPTS();
        pg_usleep(kLockPause);
    }
}

bool no_restore() {
    const LOCKTAG tag = restore_lock();
    if (LockAcquire(&tag, RowExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL) return true;
    return run(find_busy, Params().add(Int16GetDatum(static_cast<int16>(OwnLock::Restore)))).size() == 0;
}

void wait_for_duties() { WaitForLockers(restore_lock(), ShareLock, false); }

}  // namespace jobq
