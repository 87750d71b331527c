// What a transaction tells the background workers, told when it commits: see shared_state.h for what callers rely on.
// Remembered in the session until then, so that a call costs two comparisons, and nothing is told of what rolls back.
#include "pg/pg.h"

#include "settings.h"
#include "workers/slots.h"
#include "workers/wall_clock.h"

namespace jobq {

namespace {

// What this session's transaction publishes when it commits.
struct Pending {
    bool any;
    bool extension;  // jobq.announce() was called
    bool databases;  // pg_database changed
    TimestampTz due;
};
constexpr Pending kNothingPending = {false, false, false, kNothingDue};
Pending pending = kNothingPending;
bool callback_registered = false;

// Where this session found its slot last.
Slot *own_slot = nullptr;

// The slot of this session's database. Called at commit: must not raise an error.
Slot *session_slot() {
    if (own_slot == nullptr || pg_atomic_read_u32(&own_slot->database) != MyDatabaseId)
        own_slot = obtain_slot(MyDatabaseId);
    return own_slot;
}

void publish_pending() {
    // While jobs are unfinished the worker comes round at the tick interval, whatever the deadlines.
    const TimestampTz now = GetCurrentTransactionStopTimestamp();
    const TimestampTz round = now + static_cast<TimestampTz>(settings.tick_interval_ms) * 1000;
    const TimestampTz due = pending.extension ? now : Min(pending.due, round);
    for (;;) {
        Slot *slot = session_slot();
        if (slot == nullptr) return;
        if (pending.extension) {
            LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
            slot->extension = Presence::Unknown;
            slot->not_before = 0;
            LWLockRelease(slots_lock());
        }
        publish_due(slot, due);
        // The launcher may have given the slot away meanwhile; it looks at next_due after it has done so.
        if (pg_atomic_read_u32(&slot->database) == MyDatabaseId) return;
    }
}

// Runs after the transaction has become visible to others (XACT_EVENT_COMMIT comes after ProcArrayEndTransaction), so
// that whoever is woken sees it.
void at_transaction_end(XactEvent event, void *) {
    // COMMIT PREPARED may come from another session: rather look too early.
    if (event == XACT_EVENT_PREPARE && pending.any) pending.due = GetCurrentTimestamp();
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE) {
        if (pending.any) publish_pending();
        if (pending.databases) {
            pg_atomic_write_u32(&shared_state()->databases_changed, 1);
            wake_launcher();
        }
        pending = kNothingPending;
    } else if (event == XACT_EVENT_ABORT) {
        pending = kNothingPending;
    }
}

bool can_publish() {
    // In single-user mode there is nobody to tell.
    if (!shared_state_ready() || !IsUnderPostmaster) return false;
    if (!callback_registered) {
        RegisterXactCallback(at_transaction_end, nullptr);
        callback_registered = true;
    }
    return true;
}

}  // namespace

TimestampTz grace_start() {
    if (!shared_state_ready()) return PgStartTime;
    // Whoever asks is about to judge leases.
    checked_now();
    return static_cast<TimestampTz>(pg_atomic_read_u64(&shared_state()->grace_start));
}

void publish_due_at_commit(TimestampTz when) {
    if (!can_publish()) return;
    pending.any = true;
    if (when < pending.due) pending.due = when;
}

void announce_extension_at_commit() {
    if (!can_publish()) return;
    pending.any = true;
    pending.extension = true;
}

void announce_databases_at_commit() {
    if (!can_publish()) return;
    pending.databases = true;
}

}  // namespace jobq
