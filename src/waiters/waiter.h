// The entries of the list in waiters.h. Only files in this directory include this file. Each backend has an entry. The
// entries of waiting sessions are in lists, one list per partition. A session that waits for one queue is in the
// partition of the queue, and a session that waits for several queues is in the last partition. Lookouts (see
// lookout.h) and sessions that are on their way to a claim come first in a list; the other sessions follow in the order
// in which they began to wait. Each partition has its own lock and its own counters, which a commit or a claim reads
// before it acquires the lock.
#pragma once

#include "compat/pg.h"

#include "compat/queue_name.h"
#include "core/job.h"
#include "core/wake.h"
#include "shmem/memory.h"
#include "shmem/sleepers.h"
#include "shmem/wall_clock.h"
#include "waiters/queue_set.h"

namespace jobq {

constexpr uint32 kJobSignal = 1;
constexpr uint32 kLookSignal = 2;
constexpr uint32 kWakeSignal = 4;
constexpr uint32 kLookoutSignal = 8;  // set while the session is the lookout (see lookout.h)

// Whether the jobs that are promised to a sleeper are all in one lane, in several lanes, or in unknown lanes.
enum class Lanes : uint8 { Unknown, One, Several };

struct Promise {
    int jobs;  // 0: the sleeper is not on its way to a claim
    Lanes lanes;
    core::LaneTraits lane;  // the lane, if `lanes` is Lanes::One
    uint64 made_at;         // value of Waiters::entries at the time of the promise
    QueueBits queues;       // the queues of the jobs
};

struct Waiter {
    Sleeper sleeper;
    pg_atomic_uint32 signals;  // set under the lock
    bool listed;
    bool awake;       // its jobq_wait() has returned, and it is going to claim
    bool claiming;    // its claim is in progress, so no more jobs are promised to it
    QueueBits asked;  // queues that it must check when its claim ends, because another claim has left a job there
    QueueBits paused;
    int batch;
    pg_atomic_uint32 relying;    // lookout: number of commits, claims, and sleepers that rely on its next scan
    core::Micros lookout_until;  // end of the time for which the queue has lookouts
    int looks_for;               // with kLookSignal: number of jobs for which it scans the table
    core::Micros looked_at;
    core::Micros woken_at;
    Promise promise;
    int64 worker;  // 0: the worker has no name
    uint64 entered_as;
    uint64 filter_hash;
    uint64 wait_hash;  // hash of the arguments that name queues
    QueueName queue;   // empty if the session waits for several queues
    core::FilterDigest digest;
    QueueSet queues;
};

struct Partition {
    SleeperList list;
    pg_atomic_uint32 promised;  // number of entries that are on their way, including late ones
    int unsure;                 // number of entries that might have to scan the table for each job
};

// The partition of the sessions that wait for several queues.
constexpr int kSeveralQueues = kLockPartitions;
static_assert(kSeveralQueues + 1 == kWaiterPartitions);

struct Waiters {
    uint64 seed;               // of the hashes of names
    pg_atomic_uint64 entries;  // number of entries added so far
    Partition partitions[kWaiterPartitions];
    Waiter items[FLEXIBLE_ARRAY_MEMBER];
};

extern Waiters *waiters;
// This session's entry and its partition, set from the beginning of a wait until the next claim or wait. Another
// session might have removed the entry from the list in the meantime.
extern Waiter *own_waiter;
extern int own_partition;
extern int64 last_worker;  // the name that this session last waited under; 0: no name

// Removes the entry from the list. The caller must hold the partition's lock.
void take_off(Partition *partition, Waiter *waiter);
// Removes this session from the list. Unless `keeps` is true, the jobs that were promised to this session are offered
// to other sleepers. If this session is the lookout, another sleeper scans the table instead.
void leave(bool keeps);

inline int partition_of(const QueueKey &queue) { return static_cast<int>(queue.digest % kLockPartitions); }

inline LWLock *lock_of(int partition) { return shared_lock(Part::Waiters, partition); }

// Returns whether both sessions wait for jobs of the same queues with the same filter.
inline bool same_wait(const Waiter &a, const Waiter &b) {
    return a.filter_hash == b.filter_hash && a.wait_hash == b.wait_hash && same_queue(a.queue, b.queue);
}

// Returns whether all queues for which the session waits are paused.
inline bool all_paused(const Waiter &waiter) {
    if (waiter.queues.incomplete || waiter.queues.patterns_incomplete || waiter.queues.pattern_bytes > 0) return false;
    int place = 0;
    while (place < waiter.queues.count && (waiter.paused.has(place) || waiter.queues.excluded.has(place))) place++;
    return place == waiter.queues.count;
}

// Returns whether the session waits for jobs of the queue, and sets *place to the place of the queue in its list, or to
// -1. Maybe: the session must check whether it waits for them.
inline core::Wants waits_for(const Waiter &waiter, const QueueKey &queue, int *place) {
    return includes(waiter.queues, queue, place);
}

inline bool has_signal(Waiter *waiter, uint32 which) { return (pg_atomic_read_u32(&waiter->signals) & which) != 0; }

// Calls body(partition, now, alarm) under the partition's lock, then sets the latches of the sleepers that body() has
// signaled.
template <typename Body>
void with_partition(int index, Body body) {
    Alarm alarm;
    const core::Micros now = monotonic_now();
    LWLockAcquire(lock_of(index), LW_EXCLUSIVE);
    body(&waiters->partitions[index], now, &alarm);
    LWLockRelease(lock_of(index));
    alarm.ring();
}

// Returns whether a session might be in the list of this partition. What the caller has committed must be visible to
// other sessions before the list is read. Otherwise, a session that begins to wait now could miss the commit, and the
// caller could miss the session.
inline bool has_waiters(int partition) {
    pg_memory_barrier();
    return !is_empty(&waiters->partitions[partition].list);
}

}  // namespace jobq
