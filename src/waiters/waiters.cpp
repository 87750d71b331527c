// See waiters.h. promises.cpp promises jobs to the sleepers in the list, and claims.cpp contains the functions for a
// claim.
#include "compat/pg.h"

#include "waiters/lookout.h"
#include "waiters/promises.h"
#include "waiters/waiter.h"
#include "waiters/waiters.h"

#include <algorithm>

namespace jobq {

Waiters *waiters = nullptr;
Waiter *own_waiter = nullptr;
int own_partition = 0;
int64 last_worker = 0;

namespace {

bool is_unsure(const core::FilterDigest &digest) { return core::may_be_unsure(digest, core::LaneTraits{}); }

// Adds the session to the list. The caller must hold the partition's lock.
void put(Partition *partition, Waiter *waiter) {
    add_sleeper(&partition->list, &waiter->sleeper);
    waiter->listed = true;
    waiter->entered_as = pg_atomic_add_fetch_u64(&waiters->entries, 1);
    if (is_unsure(waiter->digest)) partition->unsure++;
}

// Calls visit(waiter, alarm) for the sleepers of all queues of this database. After each partition of the hash table,
// sets the latches of the sleepers that visit() has signaled.
template <typename Visit>
void for_each_of_database(Visit visit) {
    if (!shared_memory_ready()) return;
    for (int i = 0; i < kWaiterPartitions; i++) {
        if (!has_waiters(i)) continue;
        with_partition(i, [&](Partition *partition, core::Micros, Alarm *alarm) {
            for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
                if (!waiter->awake) visit(waiter, alarm);
            });
        });
    }
}

// Removes the session from the list when it exits during a wait. If the client has closed the connection normally after
// a wait, the jobs are not promised to other sleepers, because the client might claim them in another connection.
void leave_at_exit(int code, Datum) {
    if (own_waiter != nullptr) leave(own_waiter->awake && code == 0);
}

}  // namespace

void take_off(Partition *partition, Waiter *waiter) {
    if (!waiter->listed) return;
    waiter->listed = false;
    remove_sleeper(&partition->list, &waiter->sleeper);
    if (waiter->promise.jobs > 0) pg_atomic_fetch_sub_u32(&partition->promised, 1);
    if (is_unsure(waiter->digest)) partition->unsure--;
}

void leave(bool keeps) {
    static Trip trip;
    bool listed = false, relied_on = false;
    with_partition(own_partition, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        listed = own_waiter->listed;
        if (!listed) return;
        relied_on = !end_lookout(partition, now, alarm);
        take_off(partition, own_waiter);
        if (!keeps || relied_on) begin_trip(*own_waiter, &trip);
    });
    own_waiter = nullptr;
    if (!listed) return;
    if (relied_on) let_others_look(trip);
    if (!keeps) hand_on(trip);
}

Size waiters_size() { return add_size(offsetof(Waiters, items), mul_size(MaxBackends, sizeof(Waiter))); }

void make_waiters(void *memory, bool fresh) {
    waiters = static_cast<Waiters *>(memory);
    if (!fresh) return;
    if (!pg_strong_random(&waiters->seed, sizeof(waiters->seed))) waiters->seed = GetCurrentTimestamp();
    pg_atomic_init_u64(&waiters->entries, 0);
    for (Partition &partition : waiters->partitions) {
        make_list(&partition.list);
        pg_atomic_init_u32(&partition.promised, 0);
    }
    for (int i = 0; i < MaxBackends; i++) {
        pg_atomic_init_u32(&waiters->items[i].signals, 0);
        pg_atomic_init_u32(&waiters->items[i].relying, 0);
    }
}

SharedUsage waiters_usage() {
    int64 entries = 0;
    for (Partition &partition : waiters->partitions) entries += pg_atomic_read_u32(&partition.list.count);
    return {entries, MaxBackends, kNeverEvicts};
}

void enter_waiters(const WaitedQueues &queues, const core::FilterDigest &digest, int64 worker, int batch) {
    if (!shared_memory_ready() || !IsUnderPostmaster) return;
    const uint64 filter_hash = core::hash_of_digest(digest);
    const uint64 wait_hash = hash_of_wait(queues);
    // This worker waits again and has not claimed the jobs that were promised to it. The worker is about to scan the
    // table, and the scan will find these jobs. If the worker now waits for other jobs, the promised jobs are promised
    // to other sleepers instead.
    if (own_waiter != nullptr) leave(own_waiter->filter_hash == filter_hash && own_waiter->wait_hash == wait_hash);
    Waiter *waiter = own_entry(waiters->items, leave_at_exit);
    waiter->awake = waiter->claiming = false;
    waiter->asked = waiter->paused = {};
    waiter->batch = batch;
    waiter->looks_for = 0;
    waiter->looked_at = 0;
    waiter->promise = {};
    waiter->worker = last_worker = worker;
    waiter->filter_hash = filter_hash;
    waiter->wait_hash = wait_hash;
    waiter->digest = digest;
    copy_queue(waiter->queue, queues.waits_for_several() ? std::string_view() : queues.names[0]);
    fill_set(&waiter->queues, queues);
    pg_atomic_write_u32(&waiter->signals, 0);

    own_partition = waiter->queues.several ? kSeveralQueues : partition_of({waiter->queues.digests[0], {}});
    with_partition(own_partition, [&](Partition *partition, core::Micros, Alarm *) { put(partition, waiter); });
    own_waiter = waiter;
}

void update_waiter(const WaitedQueues &queues, const bool *paused, core::Micros looked_at) {
    if (own_waiter == nullptr) return;
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    // A promise refers to places in the list of queues. A session to which jobs are promised is about to end its wait.
    if (own_waiter->promise.jobs == 0) {
        if (queues.pattern_count > 0) fill_set(&own_waiter->queues, queues);
        own_waiter->paused = {};
        for (int i = 0; i < queues.count; i++) {
            const int place = paused[i] ? place_in(own_waiter->queues, queues.names[i]) : -1;
            if (place >= 0) own_waiter->paused.add(place);
        }
    }
    own_waiter->looked_at = looked_at;
    LWLockRelease(lock_of(own_partition));
}

Signals waiter_signals() {
    const uint32 signals = own_waiter == nullptr ? 0 : pg_atomic_read_u32(&own_waiter->signals);
    return {(signals & kJobSignal) != 0, (signals & kLookSignal) != 0, (signals & kWakeSignal) != 0,
            (signals & kLookoutSignal) != 0};
}

bool set_out(std::string_view queue, bool unless_another) {
    if (own_waiter == nullptr) return true;
    bool going = true;
    with_partition(own_partition, [&](Partition *partition, core::Micros now, Alarm *) {
        if (own_waiter->promise.jobs > 0) return;
        if (unless_another)
            for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
                if (same_wait(*waiter, *own_waiter)) going &= !is_on_its_way(*waiter, now);
            });
        const int place = place_in(own_waiter->queues, queue);
        if (going) promise(partition, own_waiter, place, 1, nullptr, entries_so_far(), now);
    });
    return going;
}

void leave_waiters(bool claims) {
    if (own_waiter == nullptr) return;
    static Trip trip;
    bool stays = false, relied_on = false;
    if (claims)
        with_partition(own_partition, [&](Partition *partition, core::Micros now, Alarm *alarm) {
            relied_on = own_waiter->listed && !end_lookout(partition, now, alarm);
            if (relied_on) begin_trip(*own_waiter, &trip);
            own_waiter->awake = stays = own_waiter->listed && own_waiter->promise.jobs > 0;
        });
    if (relied_on) let_others_look(trip);
    if (!stays) leave(claims);
}

void wake_waiters(const char *name, const core::LaneTraits &lane, int64 jobs) {
    if (!shared_memory_ready()) return;
    const QueueKey queue = key_of_queue(queue_view(name));
    if (leave_to_lookout(queue, lane, jobs)) return;
    offer_jobs(queue, lane, jobs, entries_so_far());
}

void let_some_waiters_look(const char *name, int64 jobs) {
    if (shared_memory_ready()) let_look_for(key_of_queue(queue_view(name)), jobs);
}

void let_waiters_look(const char *name) {
    if (!shared_memory_ready()) return;
    const QueueKey queue = key_of_queue(queue_view(name));
    with_waiters_of(queue, [&](Partition *partition, core::Micros, Alarm *alarm) {
        for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
            int place;
            if (waiter->awake || waits_for(*waiter, queue, &place) == core::Wants::No) return;
            // The queue might have been paused or resumed, so the sleeper must look for jobs again. Until then, none of
            // its jobs are promised to the sleeper, which finds the jobs that arrive in the meantime.
            if (place >= 0) waiter->paused.add(place);
            signal(waiter, kLookSignal, alarm);
        });
        return true;
    });
}

void let_all_waiters_look() {
    for_each_of_database([](Waiter *waiter, Alarm *alarm) {
        waiter->paused.add_all();
        signal(waiter, kLookSignal, alarm);
    });
}

int64 *read_waiting_workers(int *count) {
    *count = 0;
    auto *found = static_cast<int64 *>(palloc(sizeof(int64) * MaxBackends));
    if (!shared_memory_ready()) return found;
    for (int i = 0; i < kWaiterPartitions; i++) {
        LWLockAcquire(lock_of(i), LW_SHARED);
        for_each_sleeper<Waiter>(&waiters->partitions[i].list, [&](const Waiter *waiter) {
            if (!waiter->awake && waiter->worker != 0 && *count < MaxBackends) found[(*count)++] = waiter->worker;
        });
        LWLockRelease(lock_of(i));
    }
    std::sort(found, found + *count);
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
