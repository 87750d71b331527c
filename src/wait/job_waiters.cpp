// See job_waiters.h. Each backend has an entry; the entries of waiting sessions are in the list of their job's bucket.
// A commit reads the number of all waiters and the buckets of its jobs before it acquires a lock.
#include "compat/pg.h"

#include "shmem/memory.h"
#include "shmem/sleepers.h"
#include "shmem/spread.h"
#include "wait/job_waiters.h"

namespace jobq {

namespace {

constexpr int kBucketBits = 9;
constexpr int kBuckets = 1 << kBucketBits;

struct JobWaiter {
    Sleeper sleeper;
    pg_atomic_uint32 signalled;  // set under the lock
    int64 job;
};

struct JobWaiters {
    pg_atomic_uint32 count;
    SleeperList buckets[kBuckets];
    JobWaiter entries[FLEXIBLE_ARRAY_MEMBER];
};

JobWaiters *waiters = nullptr;
// This session's entry while it waits.
JobWaiter *own = nullptr;

int bucket_of(Oid database, int64 job) { return static_cast<int>(spread(database, job) >> (32 - kBucketBits)); }

LWLock *lock_of(int bucket) { return shared_lock(Part::JobWaiters, bucket % kLockPartitions); }

// Calls fits(entry) for the entry of each sleeper in a bucket, and signals the sleeper if the result is true.
template <typename Fits>
void signal_bucket(int index, Fits fits) {
    SleeperList *bucket = &waiters->buckets[index];
    if (is_empty(bucket)) return;
    Alarm alarm;
    LWLockAcquire(lock_of(index), LW_SHARED);
    for_each_sleeper<JobWaiter>(bucket, [&](JobWaiter *waiter) {
        if (fits(*waiter) && pg_atomic_exchange_u32(&waiter->signalled, 1) == 0) alarm.add(waiter->sleeper);
    });
    LWLockRelease(lock_of(index));
    alarm.ring();
}

// Returns whether any session is waiting. The barrier makes the caller's commit visible before the number of waiters is
// read, so that a session that begins to wait now either sees the commit or is counted.
bool anybody_waits() {
    if (!shared_memory_ready()) return false;
    pg_memory_barrier();
    return pg_atomic_read_u32(&waiters->count) != 0;
}

// Removes the session from the list when it exits during a wait.
void leave_at_exit(int, Datum) { leave_job_waiters(); }

}  // namespace

Size job_waiters_size() { return add_size(offsetof(JobWaiters, entries), mul_size(MaxBackends, sizeof(JobWaiter))); }

void make_job_waiters(void *memory, bool fresh) {
    waiters = static_cast<JobWaiters *>(memory);
    if (!fresh) return;
    pg_atomic_init_u32(&waiters->count, 0);
    for (SleeperList &bucket : waiters->buckets) make_list(&bucket);
    for (int i = 0; i < MaxBackends; i++) pg_atomic_init_u32(&waiters->entries[i].signalled, 0);
}

SharedUsage job_waiters_usage() { return {pg_atomic_read_u32(&waiters->count), MaxBackends, kNeverEvicts}; }

void enter_job_waiters(int64 job) {
    if (!shared_memory_ready() || !IsUnderPostmaster) return;
    Assert(own == nullptr);
    JobWaiter *waiter = own_entry(waiters->entries, leave_at_exit);
    waiter->job = job;
    pg_atomic_write_u32(&waiter->signalled, 0);
    const int index = bucket_of(MyDatabaseId, job);
    LWLockAcquire(lock_of(index), LW_EXCLUSIVE);
    add_sleeper(&waiters->buckets[index], &waiter->sleeper);
    pg_atomic_fetch_add_u32(&waiters->count, 1);
    LWLockRelease(lock_of(index));
    own = waiter;
}

void leave_job_waiters() {
    JobWaiter *waiter = own;
    if (waiter == nullptr) return;
    own = nullptr;
    const int index = bucket_of(waiter->sleeper.database, waiter->job);
    LWLockAcquire(lock_of(index), LW_EXCLUSIVE);
    remove_sleeper(&waiters->buckets[index], &waiter->sleeper);
    pg_atomic_fetch_sub_u32(&waiters->count, 1);
    LWLockRelease(lock_of(index));
}

bool job_waiter_signalled() { return own != nullptr && pg_atomic_read_u32(&own->signalled) != 0; }

void forget_job_signal() {
    // Clears the signal with an atomic exchange, which is a barrier, because the signal must be cleared before anything
    // is read.
    if (own != nullptr) pg_atomic_exchange_u32(&own->signalled, 0);
}

void wake_job_waiters(const int64 *jobs, int count) {
    if (!anybody_waits()) return;
    for (int i = 0; i < count; i++) {
        const int64 job = jobs[i];
        signal_bucket(bucket_of(MyDatabaseId, job), [job](const JobWaiter &waiter) { return waiter.job == job; });
    }
}

void let_all_job_waiters_look() {
    if (!anybody_waits()) return;
    for (int index = 0; index < kBuckets; index++) signal_bucket(index, [](const JobWaiter &) { return true; });
}

}  // namespace jobq
