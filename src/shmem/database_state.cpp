// See database_state.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "shmem/wall_clock.h"

extern "C" {
#include "storage/latch.h"
}

namespace jobq {

namespace {

SharedState *shared = nullptr;

// The search for running jobs that the rescue's index lacks rests so many times as long as it took.
constexpr int kLookRest = 50;
// Where it has left out some that were held: those wait for the next look.
constexpr int kHeldLookRest = 10;

// Where this session found its slot last.
Slot *own_slot = nullptr;

void init_slot(Slot *slot) {
    pg_atomic_write_u64(&slot->next_due, static_cast<uint64>(kNothingDue));
    slot->worker = nullptr;
    slot->leave = false;
    slot->keep_out = 0;
    slot->starting = false;
    slot->started_at = 0;
    slot->pid = 0;
    slot->recount_pid = 0;
    slot->recount_started = 0;
    slot->in_round = false;
    slot->rests = false;
    slot->round_due = kNothingDue;
    slot->extension = Presence::Unknown;
    slot->version[0] = '\0';
    slot->failures = 0;
    slot->not_before = 0;
    slot->unserved = false;
    slot->leases_found = false;
    slot->looked_epoch = kNoEpoch;
    slot->looked_at = 0;
    slot->look_took = 0;
    slot->look_held = false;
    slot->horizon = kUnknownHorizon;
    slot->horizon_version = 0;
    slot->repaired_to = kRepairBegins;
    slot->heartbeats_checked = 0;
    slot->heartbeats_checked_grace = 0;
    slot->last_round = 0;
    slot->last_chores = 0;
    slot->rounds = 0;
    slot->relied_on = 0;
    memset(slot->steps, 0, sizeof(slot->steps));
    slot->last_error[0] = '\0';
    slot->last_error_at = 0;
    slot->last_error_step = kWorkerStep;
    slot->last_error_over_at = 0;
}

// The slot of this session's database; nullptr when no worker will be started in it.
const Slot *served_slot() {
    const Slot *slot = settings.enabled ? known_session_slot() : nullptr;
    return slot != nullptr && !slot->unserved && shared->launcher != nullptr ? slot : nullptr;
}

}  // namespace

Size slots_size() { return sizeof(SharedState); }

void make_slots(void *memory, bool fresh) {
    shared = static_cast<SharedState *>(memory);
    if (!fresh) return;
    memset(memory, 0, sizeof(SharedState));
    pg_atomic_init_u32(&shared->databases_changed, 0);
    pg_atomic_init_u32(&shared->table_full, 0);
    pg_atomic_init_u64(&shared->grace_start, 0);
    pg_atomic_init_u64(&shared->writing_since, 0);
    pg_atomic_init_u64(&shared->clock_offset, 0);
    for (Slot &slot : shared->slots) {
        pg_atomic_init_u32(&slot.database, InvalidOid);
        pg_atomic_init_u64(&slot.next_due, static_cast<uint64>(kNothingDue));
        init_slot(&slot);
    }
    start_clock();
}

SharedState *shared_state() { return shared; }

LWLock *slots_lock() { return shared_lock(Lock::Slots); }

Slot *find_slot(Oid database) {
    for (Slot &slot : shared->slots) {
        if (pg_atomic_read_u32(&slot.database) == database) return &slot;
    }
    return nullptr;
}

Slot *obtain_slot(Oid database) {
    LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
    Slot *slot = find_slot(database);
    if (slot == nullptr) {
        slot = find_slot(InvalidOid);
        if (slot != nullptr) {
            init_slot(slot);
            pg_write_barrier();
            pg_atomic_write_u32(&slot->database, database);
        } else {
            pg_atomic_write_u32(&shared->table_full, 1);
        }
    }
    LWLockRelease(slots_lock());
    return slot;
}

bool release_slot(Slot *slot) {
    const Oid database = pg_atomic_read_u32(&slot->database);
    pg_atomic_write_u32(&slot->database, InvalidOid);
    // A commit lowers next_due first and looks at the database afterwards, so one of the two notices the other.
    pg_memory_barrier();
    if (due_of(slot) == kNothingDue) return true;
    pg_atomic_write_u32(&slot->database, database);
    return false;
}

Slot *session_slot() {
    Slot *slot = known_session_slot();
    if (slot == nullptr) slot = own_slot = obtain_slot(MyDatabaseId);
    return slot;
}

Slot *known_session_slot() {
    if (shared == nullptr) return nullptr;
    if (own_slot == nullptr || pg_atomic_read_u32(&own_slot->database) != MyDatabaseId)
        own_slot = find_slot(MyDatabaseId);
    return own_slot;
}

bool indexing_is_lazy() {
    const Slot *slot = served_slot();
    return slot != nullptr && slot->leases_found;
}

bool worker_comes_by() {
    const Slot *slot = served_slot();
    return slot != nullptr && slot->rounds > 0;
}

TimestampTz next_look_for_unindexed(uint64 epoch) {
    const Slot *slot = shared == nullptr ? nullptr : session_slot();
    if (slot == nullptr) return DT_NOEND;
    const bool looked = slot->leases_found || slot->look_held;
    if (!looked || slot->looked_epoch != epoch) return DT_NOBEGIN;
    if (!slot->look_held && epoch != kNoEpoch) return DT_NOEND;
    const core::Micros rest = slot->look_held ? Max(core::kSecond, kHeldLookRest * slot->look_took)
                                              : Max(core::kMinute, kLookRest * slot->look_took);
    return GetCurrentTimestamp() < slot->looked_at ? DT_NOBEGIN : slot->looked_at + rest;
}

void looked_for_unindexed(uint64 epoch, TimestampTz begin, bool held) {
    Slot *slot = known_session_slot();
    if (slot == nullptr) return;
    if (!held) slot->leases_found = true;
    slot->look_held = held;
    slot->looked_epoch = epoch;
    slot->looked_at = GetCurrentTimestamp();
    slot->look_took = Max(slot->looked_at - begin, 0);
}

bool heartbeats_doubtful(TimestampTz grace_start) {
    const Slot *slot = known_session_slot();
    const core::Micros age = slot == nullptr ? 0 : GetCurrentTimestamp() - slot->heartbeats_checked;
    return slot == nullptr || slot->heartbeats_checked_grace != grace_start || age < 0 || age > core::kMinute;
}

void heartbeats_checked(TimestampTz grace_start) {
    Slot *slot = known_session_slot();
    if (slot == nullptr) return;
    slot->heartbeats_checked = GetCurrentTimestamp();
    slot->heartbeats_checked_grace = grace_start;
}

void doubt_heartbeats() {
    if (Slot *slot = known_session_slot()) slot->heartbeats_checked_grace = 0;
}

bool lower_due(Slot *slot, TimestampTz due) {
    // What the caller committed must be visible before it concludes that a round still to come will see it.
    pg_memory_barrier();
    uint64 known = pg_atomic_read_u64(&slot->next_due);
    while (static_cast<TimestampTz>(known) > due) {
        if (pg_atomic_compare_exchange_u64(&slot->next_due, &known, static_cast<uint64>(due))) return true;
    }
    return false;
}

void publish_due(Slot *slot, TimestampTz due) {
    if (!lower_due(slot, due)) return;
    pg_memory_barrier();
    // A worker that goes clears this first and tells the launcher afterwards, which then reads next_due.
    PGPROC *worker = slot->worker;
    if (worker != nullptr)
        SetLatch(&worker->procLatch);
    else
        wake_launcher();
}

void call_worker(Slot *slot) {
    pg_memory_barrier();
    PGPROC *worker = slot->worker;
    if (worker != nullptr)
        SetLatch(&worker->procLatch);
    else
        publish_due(slot, GetCurrentTimestamp());
}

void wake_launcher() {
    PGPROC *launcher = shared->launcher;
    if (launcher != nullptr) SetLatch(&launcher->procLatch);
}

void ask_for_round(TimestampTz now) {
    Slot *slot = known_session_slot();
    if (slot == nullptr) return;
    slot->relied_on = now;
    publish_due(slot, now + tick_interval());
}

}  // namespace jobq
