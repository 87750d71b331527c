// See waiters.h. A slot for each backend; those that wait stand in lists, one per partition, in the order in which they
// came. A partition has a lock of its own, and a count that a commit reads before it takes it.
#include "pg/pg.h"

#include "shared/memory.h"
#include "shared/waiters.h"

extern "C" {
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
}

namespace jobq {

namespace {

constexpr uint32 kJobSignal = 1;
constexpr uint32 kLookSignal = 2;

struct Waiter {
    dlist_node node;  // first: a pointer to it is a pointer to the waiter
    PGPROC *proc;
    pg_atomic_uint32 signals;  // set under the lock
    Oid database;
    bool paused;
    int64 lane;  // of the job signal
    char queue[NAMEDATALEN];
    core::Wish wish;
};
static_assert(offsetof(Waiter, node) == 0, "for_each() relies on it");

struct Partition {
    pg_atomic_uint32 count;
    dlist_head waiting;
};

struct Waiters {
    Partition partitions[kWaiterPartitions];
    Waiter slots[FLEXIBLE_ARRAY_MEMBER];
};

Waiters *waiters = nullptr;
// This session's slot while it waits, and the partition that it stands in.
Waiter *own = nullptr;
int own_partition = 0;
bool exit_callback_registered = false;

int partition_of(const char *queue) {
    const uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(queue), NAMEDATALEN, MyDatabaseId);
    return static_cast<int>(hash % kWaiterPartitions);
}

LWLock *lock_of(int partition) { return shared_lock(Lock::Waiters, partition); }

bool waits_for(const Waiter &waiter, const char *queue) {
    return waiter.database == MyDatabaseId && memcmp(waiter.queue, queue, NAMEDATALEN) == 0;
}

// Latches are set after the lock has been released: who wakes up wants it next.
class Alarm {
 public:
    void add(Waiter *waiter, uint32 signal) {
        pg_atomic_fetch_or_u32(&waiter->signals, signal);
        if (count_ < kRoom)
            procs_[count_++] = waiter->proc;
        else
            SetLatch(&waiter->proc->procLatch);
    }
    void ring() {
        for (int i = 0; i < count_; i++) SetLatch(&procs_[i]->procLatch);
    }

 private:
    static constexpr int kRoom = 64;
    PGPROC *procs_[kRoom];
    int count_ = 0;
};

// Calls visit for the sleepers of a partition, the longest waiting first. Lock held.
template <typename Visit>
void for_each(Partition *partition, Visit visit) {
    // The server's macros for this are not for C++.
    const dlist_node *end = &partition->waiting.head;
    for (dlist_node *node = end->next; node != end; node = node->next) visit(reinterpret_cast<Waiter *>(node));
}

// The same for the sleepers of one queue of this database, taking the lock unless nobody waits.
template <typename Visit>
void for_each_of(const char *queue, Visit visit) {
    if (!shared_memory_ready()) return;
    const int index = partition_of(queue);
    Partition *partition = &waiters->partitions[index];
    // What the caller committed is visible before it concludes that nobody waits.
    pg_memory_barrier();
    if (pg_atomic_read_u32(&partition->count) == 0) return;
    LWLockAcquire(lock_of(index), LW_EXCLUSIVE);
    for_each(partition, [&](Waiter *waiter) {
        if (waits_for(*waiter, queue)) visit(waiter);
    });
    LWLockRelease(lock_of(index));
}

// Whether a sleeper can find out about jobs of this lane only by looking.
bool must_look(const Waiter &waiter, int64 lane) {
    return waiter.wish.many_lanes && core::wants_lane(waiter.wish, lane) == core::Wants::Maybe;
}

// Offers a job to a sleeper. True when it takes it.
bool offer(Waiter *waiter, int64 lane, Alarm *alarm) {
    if (waiter->paused) return false;
    const core::Wants wants = core::wants_lane(waiter->wish, lane);
    if (wants == core::Wants::Maybe) alarm->add(waiter, kLookSignal);
    if (wants != core::Wants::Yes || (pg_atomic_read_u32(&waiter->signals) & kJobSignal) != 0) return false;
    waiter->lane = lane;
    alarm->add(waiter, kJobSignal);
    return true;
}

// The queue may have been paused: until the sleeper has looked it is offered nothing. Its look finds what comes
// meanwhile.
void let_look(Waiter *waiter, Alarm *alarm) {
    waiter->paused = true;
    alarm->add(waiter, kLookSignal);
}

// Somebody else shall have the job that this sleeper was woken for. Lock held.
void pass_on(Partition *partition, const Waiter &from, Alarm *alarm) {
    bool taken = false;
    for_each(partition, [&](Waiter *waiter) {
        if (!taken && waits_for(*waiter, from.queue)) taken = offer(waiter, from.lane, alarm);
    });
}

// The session may end without a chance to leave in order.
void leave_at_exit(int, Datum) { leave_waiters(false); }

Waiter *slot_of_session() { return &waiters->slots[MyProc - ProcGlobal->allProcs]; }

}  // namespace

// Ordinary backends and background workers come first among the server's processes.
Size waiters_size() { return add_size(offsetof(Waiters, slots), mul_size(MaxBackends, sizeof(Waiter))); }

void make_waiters(void *memory, bool fresh) {
    waiters = static_cast<Waiters *>(memory);
    if (!fresh) return;
    memset(memory, 0, waiters_size());
    for (Partition &partition : waiters->partitions) {
        pg_atomic_init_u32(&partition.count, 0);
        dlist_init(&partition.waiting);
    }
    for (int i = 0; i < MaxBackends; i++) pg_atomic_init_u32(&waiters->slots[i].signals, 0);
}

void enter_waiters(std::string_view queue, const core::Wish &wish) {
    if (!shared_memory_ready() || !IsUnderPostmaster) return;
    Assert(own == nullptr);
    if (!exit_callback_registered) {
        before_shmem_exit(leave_at_exit, Datum(0));
        exit_callback_registered = true;
    }
    Waiter *waiter = slot_of_session();
    waiter->proc = MyProc;
    waiter->database = MyDatabaseId;
    waiter->paused = false;
    waiter->lane = 0;
    memset(waiter->queue, 0, sizeof(waiter->queue));
    memcpy(waiter->queue, queue.data(), Min(queue.size(), sizeof(waiter->queue) - 1));
    waiter->wish = wish;
    pg_atomic_write_u32(&waiter->signals, 0);

    own_partition = partition_of(waiter->queue);
    Partition *partition = &waiters->partitions[own_partition];
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    dlist_push_tail(&partition->waiting, &waiter->node);
    pg_atomic_fetch_add_u32(&partition->count, 1);
    LWLockRelease(lock_of(own_partition));
    own = waiter;
}

void update_waiter(const int64 *lanes, int count, bool paused) {
    if (own == nullptr) return;
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    own->paused = paused;
    for (int i = 0; i < count; i++) core::add_lane(&own->wish, lanes[i]);
    LWLockRelease(lock_of(own_partition));
}

Signals waiter_signals() {
    const uint32 signals = own == nullptr ? 0 : pg_atomic_read_u32(&own->signals);
    return {(signals & kJobSignal) != 0, (signals & kLookSignal) != 0};
}

void forget_look_signal() {
    if (own != nullptr) pg_atomic_fetch_and_u32(&own->signals, ~kLookSignal);
}

void leave_waiters(bool served) {
    Waiter *waiter = own;
    if (waiter == nullptr) return;
    own = nullptr;
    Alarm alarm;
    Partition *partition = &waiters->partitions[own_partition];
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    dlist_delete(&waiter->node);
    pg_atomic_fetch_sub_u32(&partition->count, 1);
    if (!served && (pg_atomic_read_u32(&waiter->signals) & kJobSignal) != 0) pass_on(partition, *waiter, &alarm);
    LWLockRelease(lock_of(own_partition));
    alarm.ring();
}

void wake_waiters(const char *queue, int64 lane, int64 jobs) {
    Alarm alarm;
    for_each_of(queue, [&](Waiter *waiter) {
        // Those who must look for themselves hear of every job.
        if (jobs <= 0 && !must_look(*waiter, lane)) return;
        if (offer(waiter, lane, &alarm)) jobs--;
    });
    alarm.ring();
}

void introduce_lane(const char *queue, int64 lane, const core::LaneTraits &traits) {
    for_each_of(queue, [&](Waiter *waiter) { core::meet_lane(&waiter->wish, lane, traits); });
}

void let_waiters_look(const char *queue) {
    Alarm alarm;
    for_each_of(queue, [&](Waiter *waiter) { let_look(waiter, &alarm); });
    alarm.ring();
}

void let_all_waiters_look() {
    if (!shared_memory_ready()) return;
    pg_memory_barrier();
    for (int i = 0; i < kWaiterPartitions; i++) {
        Partition *partition = &waiters->partitions[i];
        if (pg_atomic_read_u32(&partition->count) == 0) continue;
        Alarm alarm;
        LWLockAcquire(lock_of(i), LW_EXCLUSIVE);
        for_each(partition, [&](Waiter *waiter) {
            if (waiter->database == MyDatabaseId) let_look(waiter, &alarm);
        });
        LWLockRelease(lock_of(i));
        alarm.ring();
    }
}

}  // namespace jobq
