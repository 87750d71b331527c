// See executor_slots.h.
#include "compat/pg.h"

#include "compat/call_then.h"
#include "compat/queue_name.h"
#include "handlers/executor_policy.h"
#include "handlers/executor_slots.h"
#include "shmem/memory.h"

extern "C" {
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "libpq/pqsignal.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/pidfile.h"
}

#include <csignal>

namespace jobq {

namespace {

struct Executors {
    ExecutorSlot slots[kMaxExecutors];
    bool terminated;
    core::ExecutorWaitFacts waits[kMaxDatabases];
};
Executors *shared = nullptr;

ExecutorSlot *own = nullptr;

LWLock *lock() { return shared_lock(Part::Executors); }

template <typename Body>
auto under_lock(LWLockMode mode, Body body) {
    LWLockAcquire(lock(), mode);
    return call_then(body, [] { LWLockRelease(lock()); });
}

bool is_taken(const ExecutorSlot &slot) {
    return slot.state == ExecutorState::Starting || slot.state == ExecutorState::Idle ||
           slot.state == ExecutorState::Busy;
}

void set_state(ExecutorSlot *slot, ExecutorState state) {
    slot->state = state;
    slot->since = GetCurrentTimestamp();
}

void free_slot(ExecutorSlot *slot) {
    const uint32 generation = slot->generation;
    memset(static_cast<void *>(slot), 0, sizeof(ExecutorSlot));
    slot->generation = generation;
}

// Frees the slot if its process never attached, or if the slot has been in the state Failed for at least kFailedRest.
void tidy(ExecutorSlot *slot, TimestampTz now) {
    constexpr core::Micros kLongestStart = core::kMinute;
    const bool late = slot->state == ExecutorState::Starting && slot->pid == 0 &&
                      (now - slot->since > kLongestStart || now < slot->since);
    const bool rested =
        slot->state == ExecutorState::Failed && bounded(slot->since + kFailedRest, now, kFailedRest) <= now;
    if (late || rested) free_slot(slot);
}

// Returns the time for which a recorded wait for an executor remains valid if no background worker confirms it. A
// background worker confirms its wait at least once per tick interval.
core::Micros wait_kept() { return 5 * core::kSecond + 2 * tick_interval(); }

bool was_shut_down_in_order() {
    bool valid;
    const ControlFileData *control = get_controlfile(DataDir, &valid);
    return valid && control->state == DB_SHUTDOWNED;
}

// Returns whether a shutdown has begun. The postmaster records the shutdown in its lock file before it terminates the
// first process, so that a process that is terminated can distinguish a shutdown from pg_terminate_backend().
bool shutdown_has_begun() {
    FILE *file = fopen("postmaster.pid", "r");
    if (file == nullptr) return false;
    char line[MAXPGPATH] = "";
    for (int i = 0; i < LOCK_FILE_LINE_PM_STATUS; i++)
        if (fgets(line, sizeof(line), file) == nullptr) line[0] = 0;
    fclose(file);
    return strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

// Exit callback, called after the process has left the list of sessions. Frees the process's own slot, or keeps the
// slot in the state Ended if it contains a lease. During a shutdown, also marks the slot as terminated, so that a
// worker that is still running does not blame the job.
void leave_slot(int, Datum) {
    if (own == nullptr) return;
    DatabaseState *db = find_database_state(own->database);
    const bool stopping = shutdown_has_begun();
    const bool orphan = under_lock(LW_EXCLUSIVE, [stopping] {
        own->terminated |= stopping;
        const bool had_lease = own->now.job != 0 || own->next.job != 0;
        own->pid = 0;
        own->proc = nullptr;
        own->handler = 0;
        if (had_lease)
            set_state(own, ExecutorState::Ended);
        else if (own->state == ExecutorState::Starting)
            set_state(own, ExecutorState::Failed);
        else
            free_slot(own);
        return had_lease;
    });
    if (db == nullptr) return;
    const TimestampTz now = GetCurrentTimestamp();
    if (orphan) publish_due(db, now);
    call_supervisor(db);
    call_longest_waiting(now);
}

}  // namespace

ExecutorSlot *take_executor_slot(Oid database, Oid role, int at_most, TimestampTz now) {
    return under_lock(LW_EXCLUSIVE, [&]() -> ExecutorSlot * {
        ExecutorSlot *free = nullptr;
        int taken = 0;
        for (ExecutorSlot &slot : shared->slots) {
            if (slot.state == ExecutorState::Failed && slot.database == database && slot.role == role) return nullptr;
            taken += is_taken(slot);
            if (slot.state == ExecutorState::Free && free == nullptr) free = &slot;
        }
        if (free == nullptr || taken >= at_most) return nullptr;
        free->generation++;
        free->database = database;
        free->role = role;
        free->started_at = now;
        set_state(free, ExecutorState::Starting);
        return free;
    });
}

void give_back_executor_slot(ExecutorSlot *slot) {
    under_lock(LW_EXCLUSIVE, [&] { free_slot(slot); });
}

int index_of_executor(const ExecutorSlot *slot) { return static_cast<int>(slot - shared->slots); }

void tidy_executors(TimestampTz now) {
    under_lock(LW_EXCLUSIVE, [&] {
        for (ExecutorSlot &slot : shared->slots) tidy(&slot, now);
    });
}

void read_executors(ExecutorSlot *copies) {
    under_lock(LW_SHARED, [&] { memcpy(static_cast<void *>(copies), shared->slots, sizeof(shared->slots)); });
}

void note_executor_wait(bool waits, TimestampTz now) {
    under_lock(LW_EXCLUSIVE, [&] {
        core::ExecutorWaitFacts *own_wait = nullptr, *oldest = shared->waits;
        for (core::ExecutorWaitFacts &wait : shared->waits) {
            if (wait.database == MyDatabaseId) own_wait = &wait;
            if (wait.database == InvalidOid || (oldest->database != InvalidOid && wait.seen < oldest->seen))
                oldest = &wait;
        }
        if (!waits) {
            if (own_wait != nullptr) *own_wait = {};
            return;
        }
        if (own_wait == nullptr) {
            own_wait = oldest;
            *own_wait = {MyDatabaseId, now, now};
        }
        // If the wait has not been confirmed for a long time or the clock has stepped, a new wait begins.
        if (own_wait->since > now || now - own_wait->seen > wait_kept()) own_wait->since = now;
        own_wait->seen = now;
    });
}

int databases_ahead(TimestampTz now) {
    return under_lock(
        LW_SHARED, [&] { return core::databases_ahead(MyDatabaseId, shared->waits, kMaxDatabases, wait_kept(), now); });
}

void call_longest_waiting(TimestampTz now) {
    const Oid database = under_lock(LW_SHARED, [&] {
        const int longest = core::longest_wait(shared->waits, kMaxDatabases, wait_kept(), now);
        return longest < 0 ? InvalidOid : shared->waits[longest].database;
    });
    DatabaseState *db = database == InvalidOid ? nullptr : find_database_state(database);
    if (db != nullptr) call_supervisor(db);
}

void ask_executor_to_leave(int index, uint32 generation, TimestampTz now) {
    under_lock(LW_EXCLUSIVE, [&] {
        ExecutorSlot *slot = &shared->slots[index];
        if (slot->generation != generation || slot->pid == 0) return;
        slot->leave = true;
        slot->asked_at = now;
        SetLatch(&slot->proc->procLatch);
    });
}

// Sends SIGINT while holding the lock. The process cannot exit or begin another job without this lock, so the signal
// interrupts the intended job.
void interrupt_executor(int index, int64 lease, TimestampTz now) {
    under_lock(LW_EXCLUSIVE, [&] {
        ExecutorSlot *slot = &shared->slots[index];
        if (slot->pid == 0 || slot->now.lease != lease || slot->reported || slot->interrupted == lease) return;
        slot->interrupted = lease;
        slot->interrupted_at = now;
        kill(slot->pid, SIGINT);
    });
}

void terminate_executor(int index, int64 lease) {
    under_lock(LW_EXCLUSIVE, [&] {
        const ExecutorSlot *slot = &shared->slots[index];
        if (slot->pid != 0 && slot->now.lease == lease) kill(slot->pid, SIGTERM);
    });
}

bool send_executors_away(Oid database, bool hard) {
    return under_lock(LW_EXCLUSIVE, [&] {
        bool any = false;
        for (ExecutorSlot &slot : shared->slots) {
            if (slot.database != database || slot.pid == 0) continue;
            any = true;
            SetLatch(&slot.proc->procLatch);
            if (!hard || slot.terminated) continue;
            slot.terminated = true;
            kill(slot.pid, SIGTERM);
        }
        return any;
    });
}

bool executor_holds(int64 job, int64 lease) {
    if (shared == nullptr) return false;
    return under_lock(LW_SHARED, [&] {
        const auto is = [&](const ExecutorLease &held) { return held.job == job && held.lease == lease; };
        for (const ExecutorSlot &slot : shared->slots)
            if (slot.pid != 0 && slot.database == MyDatabaseId && (is(slot.now) || is(slot.next))) return true;
        return false;
    });
}

int ended_executors(EndedLease *leases) {
    if (shared == nullptr) return 0;
    return under_lock(LW_SHARED, [&] {
        int count = 0;
        for (const ExecutorSlot &slot : shared->slots) {
            if (slot.state != ExecutorState::Ended || slot.database != MyDatabaseId) continue;
            const auto add = [&](const ExecutorLease &lease, bool begun) {
                if (lease.job != 0)
                    leases[count++] = {.lease = lease,
                                       .blameless = slot.terminated || !begun,
                                       .slot = static_cast<int>(&slot - shared->slots),
                                       .generation = slot.generation,
                                       .ended_at = slot.since};
            };
            add(slot.now, slot.begun);
            add(slot.next, false);
        }
        return count;
    });
}

void forget_ended_executor(const EndedLease &ended) {
    under_lock(LW_EXCLUSIVE, [&] {
        ExecutorSlot *slot = &shared->slots[ended.slot];
        if (slot->generation != ended.generation || slot->state != ExecutorState::Ended) return;
        for (ExecutorLease *lease : {&slot->now, &slot->next})
            if (lease->lease == ended.lease.lease) *lease = {};
        if (slot->now.job == 0 && slot->next.job == 0) free_slot(slot);
    });
}

void forget_executors_of(Oid database) {
    under_lock(LW_EXCLUSIVE, [&] {
        for (ExecutorSlot &slot : shared->slots)
            if (slot.database == database && slot.state == ExecutorState::Ended) free_slot(&slot);
    });
}

bool last_shutdown_was_clean() { return shared != nullptr && shared->terminated; }

bool enter_executor_slot(int index, uint32 generation) {
    if (shared == nullptr) return false;
    on_shmem_exit(leave_slot, Datum(0));
    ExecutorSlot *slot = &shared->slots[index];
    return under_lock(LW_EXCLUSIVE, [&] {
        if (slot->generation != generation || slot->state != ExecutorState::Starting) return false;
        slot->pid = MyProcPid;
        slot->proc = MyProc;
        own = slot;
        return true;
    });
}

const ExecutorSlot *own_executor_slot() { return own; }

void executor_is_ready() {
    under_lock(LW_EXCLUSIVE, [] { set_state(own, ExecutorState::Idle); });
}

bool take_handler_place(uint64 handler, int at_most) {
    return under_lock(LW_EXCLUSIVE, [&] {
        int others = 0;
        for (const ExecutorSlot &slot : shared->slots)
            others += &slot != own && slot.pid != 0 && slot.database == own->database && slot.role == own->role &&
                      slot.handler == handler;
        const bool free = handler == 0 || others < at_most;
        if (free) own->handler = handler;
        return free;
    });
}

void note_next_lease(int64 job, int64 lease) {
    under_lock(LW_EXCLUSIVE, [&] { own->next = {job, lease}; });
}

void begin_next_lease() {
    under_lock(LW_EXCLUSIVE, [] {
        // Discards an interrupt that was meant for the previous job. A signal that was sent for the previous job is
        // delivered before sigprocmask() returns; signals that are sent later are meant for the next job.
        sigprocmask(SIG_SETMASK, &UnBlockSig, nullptr);
        QueryCancelPending = false;
        own->now = own->next;
        own->next = {};
        own->begun = own->reported = false;
        set_state(own, own->now.job != 0 ? ExecutorState::Busy : ExecutorState::Idle);
    });
}

// Sets `begun` without the lock, because other processes read it only after this process has exited, and the exiting
// process acquires the lock.
void lease_has_begun() { own->begun = true; }

void drop_next_lease() {
    under_lock(LW_EXCLUSIVE, [] { own->next = {}; });
}

void end_lease_of_executor() {
    drop_next_lease();
    begin_next_lease();
}

void note_own_report(int64 lease) {
    if (own == nullptr) return;
    under_lock(LW_EXCLUSIVE, [&] { own->reported |= own->now.lease == lease; });
}

uint64 handler_bit(const char *queue) { return UINT64CONST(1) << (hash_of_queue(queue) % 64); }

void call_executors(DatabaseState *db) {
    const Oid database = pg_atomic_read_u32(&db->database);
    under_lock(LW_SHARED, [&] {
        for (const ExecutorSlot &slot : shared->slots)
            if (slot.database == database && slot.state == ExecutorState::Idle && slot.proc != nullptr)
                SetLatch(&slot.proc->procLatch);
    });
    if (pg_atomic_exchange_u32(&db->executors_wanted, 0) != 0) call_supervisor(db);
}

void call_supervisor_if_wanted() {
    DatabaseState *db = known_session_database();
    if (db != nullptr && pg_atomic_exchange_u32(&db->executors_wanted, 0) != 0) call_supervisor(db);
}

void call_supervisor(DatabaseState *db) {
    pg_atomic_write_u32(&db->supervision, 1);
    call_worker(db);
}

SharedUsage executors_usage() {
    int64 entries = 0;
    under_lock(LW_SHARED, [&] {
        for (const ExecutorSlot &slot : shared->slots) entries += slot.state != ExecutorState::Free;
    });
    return {entries, kMaxExecutors, kNeverEvicts};
}

Size executors_size() { return sizeof(Executors); }

void make_executors(void *memory, bool fresh) {
    shared = static_cast<Executors *>(memory);
    if (!fresh) return;
    shared->terminated = was_shut_down_in_order();
}

}  // namespace jobq
