// See waiters.h. An entry for each backend; those that wait stand in lists, one per partition, in the order in which
// they came. A partition has a lock of its own, and a count that a commit reads before it takes it.
#include "compat/pg.h"

#include "compat/queue_name.h"
#include "shmem/memory.h"
#include "shmem/sleepers.h"
#include "wait/waiters.h"

#include <algorithm>

namespace jobq {

namespace {

constexpr uint32 kJobSignal = 1;
constexpr uint32 kLookSignal = 2;
constexpr uint32 kWakeSignal = 4;

struct Waiter {
    Sleeper sleeper;
    pg_atomic_uint32 signals;  // set under the lock
    bool paused;
    core::LaneTraits lane;  // of the job signal
    int64 worker;           // 0: it has no name
    QueueName queue;
    core::FilterDigest digest;
};

struct Waiters {
    SleeperList partitions[kLockPartitions];
    Waiter entries[FLEXIBLE_ARRAY_MEMBER];
};

Waiters *waiters = nullptr;
// This session's entry while it waits, and the partition that it stands in.
Waiter *own = nullptr;
int own_partition = 0;

int partition_of(const char *queue) { return static_cast<int>(digest_of_queue(queue_view(queue)) % kLockPartitions); }

LWLock *lock_of(int partition) { return shared_lock(Lock::Waiters, partition); }

bool waits_for(const Waiter &waiter, const char *queue) { return same_queue(waiter.queue, queue); }

void signal(Waiter *waiter, uint32 which, Alarm *alarm) {
    pg_atomic_fetch_or_u32(&waiter->signals, which);
    alarm->add(waiter->sleeper);
}

// Calls visit for the sleepers of one queue of this database, the longest waiting first, under the lock, which is not
// taken when nobody waits.
template <typename Visit>
void for_each_of(const char *queue, Visit visit) {
    if (!shared_memory_ready()) return;
    const int index = partition_of(queue);
    SleeperList *partition = &waiters->partitions[index];
    // What the caller committed is visible before it concludes that nobody waits.
    pg_memory_barrier();
    if (is_empty(partition)) return;
    LWLockAcquire(lock_of(index), LW_EXCLUSIVE);
    for_each_sleeper<Waiter>(partition, [&](Waiter *waiter) {
        if (waits_for(*waiter, queue)) visit(waiter);
    });
    LWLockRelease(lock_of(index));
}

// The same for the sleepers of all queues, with an alarm for those of a partition.
template <typename Visit>
void for_each_of_database(Visit visit) {
    if (!shared_memory_ready()) return;
    pg_memory_barrier();
    for (int i = 0; i < kLockPartitions; i++) {
        SleeperList *partition = &waiters->partitions[i];
        if (is_empty(partition)) continue;
        Alarm alarm;
        LWLockAcquire(lock_of(i), LW_EXCLUSIVE);
        for_each_sleeper<Waiter>(partition, [&](Waiter *waiter) { visit(waiter, &alarm); });
        LWLockRelease(lock_of(i));
        alarm.ring();
    }
}

// Offers a job to a sleeper. True when it takes it.
bool offer(Waiter *waiter, const core::LaneTraits &lane, Alarm *alarm) {
    if (waiter->paused) return false;
    const core::Wants wants = core::wants_lane(waiter->digest, lane);
    if (wants == core::Wants::Maybe) signal(waiter, kLookSignal, alarm);
    if (wants != core::Wants::Yes || (pg_atomic_read_u32(&waiter->signals) & kJobSignal) != 0) return false;
    waiter->lane = lane;
    signal(waiter, kJobSignal, alarm);
    return true;
}

// The queue may have been paused: until the sleeper has looked it is offered nothing. Its look finds what comes
// meanwhile.
void let_look(Waiter *waiter, Alarm *alarm) {
    waiter->paused = true;
    signal(waiter, kLookSignal, alarm);
}

// Somebody else shall have the job that this sleeper was woken for. Lock held.
void pass_on(SleeperList *partition, const Waiter &from, Alarm *alarm) {
    bool taken = false;
    for_each_sleeper<Waiter>(partition, [&](Waiter *waiter) {
        if (!taken && waits_for(*waiter, from.queue)) taken = offer(waiter, from.lane, alarm);
    });
}

// The session may end without a chance to leave in order.
void leave_at_exit(int, Datum) { leave_waiters(false); }

}  // namespace

Size waiters_size() { return add_size(offsetof(Waiters, entries), mul_size(MaxBackends, sizeof(Waiter))); }

void make_waiters(void *memory, bool fresh) {
    waiters = static_cast<Waiters *>(memory);
    if (!fresh) return;
    memset(memory, 0, waiters_size());
    for (SleeperList &partition : waiters->partitions) make_list(&partition);
    for (int i = 0; i < MaxBackends; i++) pg_atomic_init_u32(&waiters->entries[i].signals, 0);
}

void enter_waiters(std::string_view queue, const core::FilterDigest &digest, int64 worker) {
    if (!shared_memory_ready() || !IsUnderPostmaster) return;
    Assert(own == nullptr);
    Waiter *waiter = own_entry(waiters->entries, leave_at_exit);
    waiter->paused = false;
    waiter->worker = worker;
    copy_queue(waiter->queue, queue);
    waiter->digest = digest;
    pg_atomic_write_u32(&waiter->signals, 0);

    own_partition = partition_of(waiter->queue);
    SleeperList *partition = &waiters->partitions[own_partition];
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    add_sleeper(partition, &waiter->sleeper);
    LWLockRelease(lock_of(own_partition));
    own = waiter;
}

void update_waiter(bool paused) {
    if (own == nullptr) return;
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    own->paused = paused;
    LWLockRelease(lock_of(own_partition));
}

Signals waiter_signals() {
    const uint32 signals = own == nullptr ? 0 : pg_atomic_read_u32(&own->signals);
    return {(signals & kJobSignal) != 0, (signals & kLookSignal) != 0, (signals & kWakeSignal) != 0};
}

void forget_look_signal() {
    if (own != nullptr) pg_atomic_fetch_and_u32(&own->signals, ~kLookSignal);
}

void leave_waiters(bool served) {
    Waiter *waiter = own;
    if (waiter == nullptr) return;
    own = nullptr;
    Alarm alarm;
    SleeperList *partition = &waiters->partitions[own_partition];
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    remove_sleeper(partition, &waiter->sleeper);
    if (!served && (pg_atomic_read_u32(&waiter->signals) & kJobSignal) != 0) pass_on(partition, *waiter, &alarm);
    LWLockRelease(lock_of(own_partition));
    alarm.ring();
}

void wake_waiters(const char *queue, const core::LaneTraits &lane, int64 jobs) {
    Alarm alarm;
    for_each_of(queue, [&](Waiter *waiter) {
        // Those who must look for themselves hear of every job.
        if (jobs <= 0 && (!core::may_be_unsure(waiter->digest, lane) ||
                          core::wants_lane(waiter->digest, lane) != core::Wants::Maybe))
            return;
        if (offer(waiter, lane, &alarm)) jobs--;
    });
    alarm.ring();
}

void let_waiters_look(const char *queue) {
    Alarm alarm;
    for_each_of(queue, [&](Waiter *waiter) { let_look(waiter, &alarm); });
    alarm.ring();
}

void let_all_waiters_look() { for_each_of_database(let_look); }

QueueSleepers *read_sleepers(int *queues) {
    *queues = 0;
    if (!shared_memory_ready()) return nullptr;
    auto *found = static_cast<QueueSleepers *>(palloc(sizeof(QueueSleepers) * MaxBackends));
    for (int i = 0; i < kLockPartitions; i++) {
        LWLockAcquire(lock_of(i), LW_SHARED);
        for_each_sleeper<Waiter>(&waiters->partitions[i], [&](const Waiter *waiter) {
            QueueSleepers *end = found + *queues;
            QueueSleepers *same = std::find_if(
                found, end, [&](const QueueSleepers &one) { return same_queue(one.queue, waiter->queue); });
            if (same == end) {
                if (*queues == MaxBackends) return;
                memcpy(same->queue, waiter->queue, sizeof(QueueName));
                same->count = 0;
                ++*queues;
            }
            same->count++;
        });
        LWLockRelease(lock_of(i));
    }
    return found;
}

int end_waits(int64 worker) {
    int ended = 0;
    for_each_of_database([&](Waiter *waiter, Alarm *alarm) {
        if (waiter->worker != worker) return;
        signal(waiter, kWakeSignal, alarm);
        ended++;
    });
    return ended;
}

}  // namespace jobq
