// See waiters.h.
#include "compat/pg.h"

#include "waiters/lookout.h"
#include "waiters/waiter.h"
#include "waiters/waiters.h"
#include "waiters/wake_notes_policy.h"

#include <algorithm>

namespace jobq {

Waiters *waiters = nullptr;
Waiter *own_waiter = nullptr;
int own_partition = 0;

namespace {

int64 last_worker = 0;  // the name that this session last waited under; 0: no name
// The jobs that were promised to the claim in progress.
struct {
    Promise promise;
    QueueName queue;
    uint64 filter_hash;
} claiming;

void signal(Waiter *waiter, uint32 which, Alarm *alarm) {
    pg_atomic_fetch_or_u32(&waiter->signals, which);
    alarm->add(waiter->sleeper);
}

bool is_unsure(const core::FilterDigest &digest) { return core::may_be_unsure(digest, core::LaneTraits{}); }

// ---- Until the next "----", the caller of each function must hold the partition's lock.

void put(Partition *partition, Waiter *waiter) {
    add_sleeper(&partition->list, &waiter->sleeper);
    waiter->listed = true;
    waiter->entered_as = ++partition->entries;
    if (is_unsure(waiter->digest)) partition->unsure++;
}

void take_off(Partition *partition, Waiter *waiter) {
    if (!waiter->listed) return;
    waiter->listed = false;
    remove_sleeper(&partition->list, &waiter->sleeper);
    if (waiter->promise.jobs > 0) pg_atomic_fetch_sub_u32(&partition->promised, 1);
    if (is_unsure(waiter->digest)) partition->unsure--;
}

// Returns whether the sleeper was woken less than kOnItsWay ago and its claim has not ended.
bool is_expected(const Waiter &waiter, core::Micros now) {
    return waiter.promise.jobs > 0 && now - waiter.woken_at < kOnItsWay;
}

// Returns whether the sleeper was woken less than kOnItsWay ago and its claim has not begun. If the result is true, the
// claim will see everything that has been committed.
bool is_on_its_way(const Waiter &waiter, core::Micros now) { return is_expected(waiter, now) && !waiter.claiming; }

void add_lane(Promise *promise, const core::LaneTraits &lane) {
    if (promise->lanes == Lanes::Unknown) {
        promise->lanes = Lanes::One;
        promise->lane = lane;
    } else if (memcmp(&promise->lane, &lane, sizeof(lane)) != 0) {
        promise->lanes = Lanes::Several;
    }
}

// Promises at most `jobs` jobs to the sleeper, and no more than its claim has room for. Returns the number of jobs that
// it has promised.
int promise(Partition *partition, Waiter *waiter, int64 jobs, const core::LaneTraits *lane, uint64 made_at,
            core::Micros now) {
    Promise *promise = &waiter->promise;
    const int taken = static_cast<int>(Min(jobs, static_cast<int64>(waiter->batch - promise->jobs)));
    if (taken <= 0) return 0;
    if (promise->jobs == 0) {
        *promise = {};
        waiter->woken_at = now;
        pg_atomic_fetch_add_u32(&partition->promised, 1);
        // Sleepers that are on their way come first, so that the next commit promises jobs to these sleepers before it
        // wakes other sleepers.
        move_to_front(&partition->list, &waiter->sleeper);
    }
    if (lane != nullptr) add_lane(promise, *lane);
    promise->jobs += taken;
    promise->made_at = Max(promise->made_at, made_at);
    return taken;
}

// Promises jobs of a lane to a sleeper if its filter accepts the lane. Returns the number of jobs that it has promised.
int offer(Partition *partition, Waiter *waiter, const core::LaneTraits &lane, int64 jobs, uint64 made_at,
          core::Micros now, Alarm *alarm) {
    const bool signalled = waiter->awake || has_signal(waiter, kJobSignal);
    if (signalled && !is_on_its_way(*waiter, now)) {
        // Removes the worker from the list, because it has been on its way for too long and might never claim.
        if (waiter->awake && !waiter->claiming) take_off(partition, waiter);
        return 0;
    }
    if (!signalled && waiter->paused) return 0;
    const core::Wants wants = core::wants_lane(waiter->digest, lane);
    if (wants == core::Wants::Maybe && !signalled) signal(waiter, kLookSignal, alarm);
    if (wants != core::Wants::Yes || jobs <= 0) return 0;
    const int taken = promise(partition, waiter, jobs, &lane, made_at, now);
    if (taken > 0 && !signalled) signal(waiter, kJobSignal, alarm);
    return taken;
}

// Promises jobs of a lane to the sleepers of the queue, in the order of the list.
void offer_to_all(Partition *partition, const char *queue, const core::LaneTraits &lane, int64 jobs, uint64 made_at,
                  core::Micros now, Alarm *alarm) {
    const bool all = partition->unsure > 0 || core::may_be_unsure(core::FilterDigest{}, lane);
    while_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
        // If it is unknown whether a sleeper's filter accepts the lane, the sleeper must scan the table whenever the
        // lane gets a job. So the loop must reach all such sleepers, even if no job is left to promise.
        if (jobs <= 0 && !all) return false;
        if (waits_for(*waiter, queue) && waiter->entered_as <= made_at)
            jobs -= offer(partition, waiter, lane, jobs, made_at, now, alarm);
        return true;
    });
}

// For each filter, the number of jobs for which sleepers with this filter have been told to scan the table.
struct Looks {
    static constexpr int kRoom = 16;
    struct {
        uint64 filter_hash;
        int64 jobs;
    } items[kRoom];
    int count;
};

// Returns the counter for the filter, or nullptr if there are too many different filters.
int64 *looks_with(Looks *looks, uint64 filter_hash) {
    auto *end = looks->items + looks->count;
    auto *found = std::find_if(looks->items, end, [&](const auto &item) { return item.filter_hash == filter_hash; });
    if (found == end && looks->count == Looks::kRoom) return nullptr;
    if (found == end) {
        *found = {filter_hash, 0};
        looks->count++;
    }
    return &found->jobs;
}

// Makes the sleeper scan the table for at most `jobs` jobs. Returns the number of jobs for which the sleeper scans.
int64 assign_jobs(Partition *partition, Waiter *waiter, int64 jobs, core::Micros now, Alarm *alarm) {
    if (is_on_its_way(*waiter, now)) return promise(partition, waiter, jobs, nullptr, partition->entries, now);
    if (waiter->awake || has_signal(waiter, kJobSignal)) return 0;
    if (!has_signal(waiter, kLookSignal)) waiter->looks_for = 0;
    const int64 taken = Min(jobs, static_cast<int64>(waiter->batch - waiter->looks_for));
    if (taken <= 0) return 0;
    waiter->looks_for += static_cast<int>(taken);
    signal(waiter, kLookSignal, alarm);
    return taken;
}

void let_some_look(Partition *partition, const char *queue, int64 jobs, core::Micros now, Alarm *alarm) {
    Looks looks = {};
    // Chooses first the sleepers that have not scanned the table within the last kLookGap, because the other sleepers
    // would pause before their next scan.
    for (const bool rested : {true, false}) {
        for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
            if (!waits_for(*waiter, queue) || (now - waiter->looked_at >= kLookGap) != rested) return;
            int64 *found = looks_with(&looks, waiter->filter_hash);
            const int64 left = found == nullptr ? jobs : jobs - *found;
            if (left <= 0) return;
            const int64 taken = assign_jobs(partition, waiter, left, now, alarm);
            if (found != nullptr) *found += taken;
        });
    }
}

// Promises jobs to other sleepers when the sleeper to which they were promised does not claim all of them. Considers
// only sleepers that were in the list when the promise was made, because sleepers that were added later have scanned
// the table since then. Therefore, a job that no claim takes is not promised again and again.
void hand_on(Partition *partition, const char *queue, const Promise &from, core::Micros now, Alarm *alarm) {
    if (from.jobs <= 0) return;
    if (from.lanes == Lanes::One)
        offer_to_all(partition, queue, from.lane, from.jobs, from.made_at, now, alarm);
    else
        let_some_look(partition, queue, from.jobs, now, alarm);
}

// ---- The functions from here to the end of the file acquire the partition's lock themselves.

// Calls with_partition() for the partition of a queue, unless the partition is empty.
template <typename Body>
void with_waiters_of(const char *queue, Body body) {
    if (!shared_memory_ready()) return;
    const int index = partition_of(queue);
    if (has_waiters(index)) with_partition(index, body);
}

// Calls visit(waiter, alarm) for the sleepers of all queues of this database. After each partition of the hash table,
// sets the latches of the sleepers that visit() has signaled.
template <typename Visit>
void for_each_of_database(Visit visit) {
    if (!shared_memory_ready()) return;
    for (int i = 0; i < kLockPartitions; i++) {
        if (!has_waiters(i)) continue;
        with_partition(i, [&](Partition *partition, core::Micros, Alarm *alarm) {
            for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
                if (!waiter->awake) visit(waiter, alarm);
            });
        });
    }
}

// Makes a sleeper scan the table. Call it if the sleeper's queue might have been paused or resumed. Until the scan, no
// jobs are promised to the sleeper; the scan finds the jobs that arrive in the meantime.
void let_look(Waiter *waiter, Alarm *alarm) {
    waiter->paused = true;
    signal(waiter, kLookSignal, alarm);
}

// Returns the entry of a worker that has waited in another session, or nullptr. With a connection pooler, a worker can
// wait in one session and claim in another session.
Waiter *entry_of_worker(Partition *partition, const char *queue, int64 worker) {
    Waiter *found = nullptr;
    for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
        if (waiter->awake && waiter->worker == worker && waits_for(*waiter, queue)) found = waiter;
    });
    return found;
}

// Saves the promise that was made to a worker. Call it when the worker's claim begins.
void take_promise(const Waiter *waiter) {
    claiming.promise = waiter->promise;
    memcpy(claiming.queue, waiter->queue, sizeof(QueueName));
    claiming.filter_hash = waiter->filter_hash;
}

// Returns whether it is certain that the claim saw all promised jobs that were still claimable.
bool has_seen_promised(const Promise &promise, const core::WorkerFilter &filter) {
    if (IsolationUsesXactSnapshot()) return false;
    const core::FilterDigest digest = core::digest_of(filter);
    if (core::hash_of_digest(digest) == claiming.filter_hash) return true;
    return promise.lanes == Lanes::One && core::wants_lane(digest, promise.lane) != core::Wants::No;
}

// If this session is the lookout, makes another sleeper scan the table instead.
void end_own_lookout(Partition *partition, core::Micros now, Alarm *alarm) {
    // One sleeper per filter is enough, because a claim that leaves jobs wakes the next sleeper.
    if (!end_lookout(partition, now, alarm)) let_some_look(partition, own_waiter->queue, 1, now, alarm);
}

// Removes this session from the list. Unless `keeps` is true, the jobs that were promised to this session are offered
// to other sleepers.
void leave(bool keeps) {
    with_partition(own_partition, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        if (!own_waiter->listed) return;
        end_own_lookout(partition, now, alarm);
        take_off(partition, own_waiter);
        if (!keeps) hand_on(partition, own_waiter->queue, own_waiter->promise, now, alarm);
    });
    own_waiter = nullptr;
}

// Removes the session from the list when it exits during a wait. If the client has closed the connection normally after
// a wait, the jobs are not promised to other sleepers, because the client might claim them in another connection.
void leave_at_exit(int code, Datum) {
    if (own_waiter != nullptr) leave(own_waiter->awake && code == 0);
}

}  // namespace

Size waiters_size() { return add_size(offsetof(Waiters, entries), mul_size(MaxBackends, sizeof(Waiter))); }

void make_waiters(void *memory, bool fresh) {
    waiters = static_cast<Waiters *>(memory);
    if (!fresh) return;
    for (Partition &partition : waiters->partitions) {
        make_list(&partition.list);
        pg_atomic_init_u32(&partition.promised, 0);
    }
    for (int i = 0; i < MaxBackends; i++) {
        pg_atomic_init_u32(&waiters->entries[i].signals, 0);
        pg_atomic_init_u32(&waiters->entries[i].relying, 0);
    }
}

SharedUsage waiters_usage() {
    int64 entries = 0;
    for (Partition &partition : waiters->partitions) entries += pg_atomic_read_u32(&partition.list.count);
    return {entries, MaxBackends, kNeverEvicts};
}

void enter_waiters(std::string_view queue, const core::FilterDigest &digest, int64 worker, int batch) {
    if (!shared_memory_ready() || !IsUnderPostmaster) return;
    const uint64 filter_hash = core::hash_of_digest(digest);
    QueueName name;
    copy_queue(name, queue);
    // This worker waits again and has not claimed the jobs that were promised to it. The worker is about to scan the
    // table, and the scan will find these jobs. If the worker now waits for other jobs, the promised jobs are promised
    // to other sleepers instead.
    if (own_waiter != nullptr) leave(own_waiter->filter_hash == filter_hash && waits_for(*own_waiter, name));
    Waiter *waiter = own_entry(waiters->entries, leave_at_exit);
    waiter->awake = waiter->claiming = waiter->asked = waiter->paused = false;
    waiter->batch = batch;
    waiter->looks_for = 0;
    waiter->looked_at = 0;
    waiter->promise = {};
    waiter->worker = last_worker = worker;
    waiter->filter_hash = filter_hash;
    memcpy(waiter->queue, name, sizeof(QueueName));
    waiter->digest = digest;
    pg_atomic_write_u32(&waiter->signals, 0);

    own_partition = partition_of(name);
    with_partition(own_partition, [&](Partition *partition, core::Micros, Alarm *) { put(partition, waiter); });
    own_waiter = waiter;
}

void update_waiter(bool paused, core::Micros looked_at) {
    if (own_waiter == nullptr) return;
    LWLockAcquire(lock_of(own_partition), LW_EXCLUSIVE);
    own_waiter->paused = paused;
    own_waiter->looked_at = looked_at;
    LWLockRelease(lock_of(own_partition));
}

Signals waiter_signals() {
    const uint32 signals = own_waiter == nullptr ? 0 : pg_atomic_read_u32(&own_waiter->signals);
    return {(signals & kJobSignal) != 0, (signals & kLookSignal) != 0, (signals & kWakeSignal) != 0,
            (signals & kLookoutSignal) != 0};
}

bool set_out(bool unless_another) {
    if (own_waiter == nullptr) return true;
    bool going = true;
    with_partition(own_partition, [&](Partition *partition, core::Micros now, Alarm *) {
        if (own_waiter->promise.jobs > 0) return;
        if (unless_another)
            for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
                if (same_wait(*waiter, *own_waiter)) going &= !is_on_its_way(*waiter, now);
            });
        if (going) promise(partition, own_waiter, 1, nullptr, partition->entries, now);
    });
    return going;
}

void leave_waiters(bool claims) {
    if (own_waiter == nullptr) return;
    bool stays = false;
    if (claims)
        with_partition(own_partition, [&](Partition *partition, core::Micros now, Alarm *alarm) {
            end_own_lookout(partition, now, alarm);
            own_waiter->awake = stays = own_waiter->listed && own_waiter->promise.jobs > 0;
        });
    if (!stays) leave(claims);
}

void begin_claim(std::string_view queue, std::string_view worker_id) {
    claiming.promise.jobs = 0;
    if (!shared_memory_ready()) return;
    QueueName name;
    copy_queue(name, queue);
    if (own_waiter != nullptr && waits_for(*own_waiter, name)) {
        with_partition(own_partition, [](Partition *, core::Micros, Alarm *) {
            if (!own_waiter->listed) return;
            take_promise(own_waiter);
            own_waiter->claiming = true;
        });
        return;
    }
    const int index = partition_of(name);
    if (pg_atomic_read_u32(&waiters->partitions[index].promised) == 0) return;
    const int64 worker = core::worker_key(worker_id);
    if (worker == last_worker) return;
    with_partition(index, [&](Partition *partition, core::Micros, Alarm *) {
        Waiter *waiter = entry_of_worker(partition, name, worker);
        if (waiter == nullptr) return;
        take_promise(waiter);
        take_off(partition, waiter);
    });
}

bool leave_after_claim() {
    if (own_waiter == nullptr || !own_waiter->claiming) return false;
    leave(true);
    // No lock is needed, because no other process writes to an entry that is in no list.
    return waiters->entries[MyProc - ProcGlobal->allProcs].asked;
}

void end_claim(const core::WorkerFilter &filter, int claimed) {
    Promise promise = claiming.promise;
    claiming.promise.jobs = 0;
    if (promise.jobs > 0) note_promised_claim(claimed > 0);
    if (promise.jobs <= claimed || promise.lanes == Lanes::Unknown || has_seen_promised(promise, filter)) return;
    promise.jobs -= claimed;
    with_waiters_of(claiming.queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        hand_on(partition, claiming.queue, promise, now, alarm);
    });
}

bool anybody_waits(std::string_view queue) {
    if (!shared_memory_ready()) return false;
    QueueName name;
    copy_queue(name, queue);
    return !is_empty(&waiters->partitions[partition_of(name)].list);
}

void wake_next_waiter(std::string_view queue, const core::LaneTraits &lane) {
    QueueName name;
    copy_queue(name, queue);
    with_waiters_of(name, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        bool woken = false;
        while_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
            if (!waits_for(*waiter, name)) return true;
            if (is_expected(*waiter, now) && core::wants_lane(waiter->digest, lane) == core::Wants::Yes) {
                if (waiter->claiming)
                    waiter->asked = true;
                else
                    add_lane(&waiter->promise, lane);
                woken = true;
            } else {
                woken = offer(partition, waiter, lane, 1, partition->entries, now, alarm) > 0;
            }
            return !woken;
        });
    });
}

void hand_on_failed_claim() {
    if (leave_after_claim()) let_some_waiters_look(claiming.queue, 1);
    if (claiming.promise.jobs == 0) return;
    with_waiters_of(claiming.queue, [](Partition *partition, core::Micros now, Alarm *alarm) {
        hand_on(partition, claiming.queue, claiming.promise, now, alarm);
    });
    claiming.promise.jobs = 0;
}

void wake_waiters(const char *queue, const core::LaneTraits &lane, int64 jobs) {
    if (leave_to_lookout(queue, lane, jobs)) return;
    with_waiters_of(queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        offer_to_all(partition, queue, lane, jobs, partition->entries, now, alarm);
    });
}

void let_some_waiters_look(const char *queue, int64 jobs) {
    with_waiters_of(queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        let_some_look(partition, queue, jobs, now, alarm);
    });
}

void let_waiters_look(const char *queue) {
    with_waiters_of(queue, [&](Partition *partition, core::Micros, Alarm *alarm) {
        for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
            if (!waiter->awake && waits_for(*waiter, queue)) let_look(waiter, alarm);
        });
    });
}

void let_all_waiters_look() { for_each_of_database(let_look); }

QueueSleepers *read_sleepers(int *queues) {
    *queues = 0;
    if (!shared_memory_ready()) return nullptr;
    auto *found = static_cast<QueueSleepers *>(palloc(sizeof(QueueSleepers) * MaxBackends));
    for (int i = 0; i < kLockPartitions; i++) {
        LWLockAcquire(lock_of(i), LW_SHARED);
        for_each_sleeper<Waiter>(&waiters->partitions[i].list, [&](const Waiter *waiter) {
            if (waiter->awake) return;
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
