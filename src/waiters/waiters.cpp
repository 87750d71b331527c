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
// The queues for which a session has waited, and the jobs that were promised to the session.
struct Trip {
    Promise promise;
    QueueBits asked;
    uint64 filter_hash;
    uint64 wait_hash;
    bool several;
    int count;
    uint64 digests[kListedQueues];
};
Trip claiming;  // the wait that the claim in progress ends

void signal(Waiter *waiter, uint32 which, Alarm *alarm) {
    pg_atomic_fetch_or_u32(&waiter->signals, which);
    alarm->add(waiter->sleeper);
}

bool is_unsure(const core::FilterDigest &digest) { return core::may_be_unsure(digest, core::LaneTraits{}); }

// ---- Until the next "----", the caller of each function must hold the partition's lock.

uint64 entries_so_far() { return pg_atomic_read_u64(&waiters->entries); }

void put(Partition *partition, Waiter *waiter) {
    add_sleeper(&partition->list, &waiter->sleeper);
    waiter->listed = true;
    waiter->entered_as = pg_atomic_add_fetch_u64(&waiters->entries, 1);
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
// `place` is the place of the jobs' queue in the sleeper's list, or -1 if the list does not contain the queue.
int promise(Partition *partition, Waiter *waiter, int place, int64 jobs, const core::LaneTraits *lane, uint64 made_at,
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
    if (place >= 0) promise->queues.add(place);
    promise->jobs += taken;
    promise->made_at = Max(promise->made_at, made_at);
    return taken;
}

// Promises jobs of a lane to a sleeper if its filter accepts the lane. Returns the number of jobs that it has promised.
int offer(Partition *partition, Waiter *waiter, int place, const core::LaneTraits &lane, int64 jobs, uint64 made_at,
          core::Micros now, Alarm *alarm) {
    const bool signalled = waiter->awake || has_signal(waiter, kJobSignal);
    if (signalled && !is_on_its_way(*waiter, now)) {
        // Removes the worker from the list, because it has been on its way for too long and might never claim.
        if (waiter->awake && !waiter->claiming) take_off(partition, waiter);
        return 0;
    }
    if (!signalled && waiter->paused.has(place)) return 0;
    const core::Wants wants = core::wants_lane(waiter->digest, lane);
    if (wants == core::Wants::Maybe && !signalled) signal(waiter, kLookSignal, alarm);
    if (wants != core::Wants::Yes || jobs <= 0) return 0;
    const int taken = promise(partition, waiter, place, jobs, &lane, made_at, now);
    if (taken > 0 && !signalled) signal(waiter, kJobSignal, alarm);
    return taken;
}

// Promises jobs of a lane to the sleepers of the queue, in the order of the list. Returns the number of jobs that are
// left.
int64 offer_to_all(Partition *partition, const QueueKey &queue, const core::LaneTraits &lane, int64 jobs,
                   uint64 made_at, core::Micros now, Alarm *alarm) {
    const bool all = partition->unsure > 0 || core::may_be_unsure(core::FilterDigest{}, lane);
    while_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
        // If it is unknown whether a sleeper's filter accepts the lane, the sleeper must scan the table whenever the
        // lane gets a job. So the loop must reach all such sleepers, even if no job is left to promise.
        if (jobs <= 0 && !all) return false;
        int place;
        if (waits_for(*waiter, queue, &place) == core::Wants::Yes && waiter->entered_as <= made_at)
            jobs -= offer(partition, waiter, place, lane, jobs, made_at, now, alarm);
        return true;
    });
    return jobs;
}

// For each filter, the number of jobs for which sleepers with this filter have been told to scan the table. Sleepers
// that might wait for the queue because of a pattern are counted for each set of queues and filter.
struct Looks {
    static constexpr int kRoom = 16;
    struct {
        uint64 hash;
        int64 jobs;
    } items[kRoom];
    int count;
};

// Returns the counter for the filter, or nullptr if there are too many different filters.
int64 *looks_with(Looks *looks, uint64 hash) {
    auto *end = looks->items + looks->count;
    auto *found = std::find_if(looks->items, end, [&](const auto &item) { return item.hash == hash; });
    if (found == end && looks->count == Looks::kRoom) return nullptr;
    if (found == end) {
        *found = {hash, 0};
        looks->count++;
    }
    return &found->jobs;
}

// Makes the sleeper scan the table for at most `jobs` jobs. Returns the number of jobs for which the sleeper scans.
int64 assign_jobs(Partition *partition, Waiter *waiter, int place, int64 jobs, core::Micros now, Alarm *alarm) {
    if (is_on_its_way(*waiter, now))
        return place < 0 ? 0 : promise(partition, waiter, place, jobs, nullptr, entries_so_far(), now);
    if (waiter->awake || has_signal(waiter, kJobSignal)) return 0;
    if (!has_signal(waiter, kLookSignal)) waiter->looks_for = 0;
    const int64 taken = Min(jobs, static_cast<int64>(waiter->batch - waiter->looks_for));
    if (taken <= 0) return 0;
    waiter->looks_for += static_cast<int>(taken);
    signal(waiter, kLookSignal, alarm);
    return taken;
}

// The sleepers that let_some_look() tells to scan the table.
enum class Lookers {
    All,
    Unlisted,  // only sleepers that might wait for the queue and do not list it
};

void let_some_look(Partition *partition, const QueueKey &queue, int64 jobs, Lookers lookers, Looks *looks,
                   core::Micros now, Alarm *alarm) {
    // Chooses first the sleepers that have not scanned the table within the last kLookGap, because the other sleepers
    // would pause before their next scan.
    for (const bool rested : {true, false}) {
        for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
            if ((now - waiter->looked_at >= kLookGap) != rested) return;
            int place;
            const core::Wants wants = waits_for(*waiter, queue, &place);
            if (wants == core::Wants::No || (wants == core::Wants::Yes && lookers == Lookers::Unlisted)) return;
            int64 *found = looks_with(
                looks, wants == core::Wants::Yes ? waiter->filter_hash : waiter->filter_hash ^ waiter->wait_hash);
            const int64 left = found == nullptr ? jobs : jobs - *found;
            if (left <= 0) return;
            const int64 taken = assign_jobs(partition, waiter, place, left, now, alarm);
            if (found != nullptr) *found += taken;
        });
    }
}

// Makes sleepers scan the table that might wait for the queue because of a pattern. Call it if sleepers that list the
// queue cannot take all of its jobs.
void let_unlisted_look(Partition *partition, const QueueKey &queue, int64 jobs, core::Micros now, Alarm *alarm) {
    if (partition != &waiters->partitions[kSeveralQueues]) return;
    Looks looks = {};
    let_some_look(partition, queue, jobs, Lookers::Unlisted, &looks, now, alarm);
}

// ---- The functions from here to the end of the file acquire the partition's lock themselves.

// Calls body(partition, now, alarm) for the partition of the queue, and then for the partition of the sessions that
// wait for several queues. Skips empty partitions, and the second partition if body() has returned false.
template <typename Body>
void with_waiters_of(const QueueKey &queue, Body body) {
    bool goes_on = true;
    for (const int index : {partition_of(queue), kSeveralQueues})
        if (goes_on && has_waiters(index))
            with_partition(index, [&](Partition *partition, core::Micros now, Alarm *alarm) {
                goes_on = body(partition, now, alarm);
            });
}

// Makes sleepers scan the table for jobs of the queue.
void let_look_for(const QueueKey &queue, int64 jobs) {
    Looks looks = {};
    with_waiters_of(queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        let_some_look(partition, queue, jobs, Lookers::All, &looks, now, alarm);
        return true;
    });
}

// Promises jobs of a lane to sleepers that were in the list at `made_at`.
void offer_jobs(const QueueKey &queue, const core::LaneTraits &lane, int64 jobs, uint64 made_at) {
    with_waiters_of(queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        jobs = offer_to_all(partition, queue, lane, jobs, made_at, now, alarm);
        if (jobs > 0) let_unlisted_look(partition, queue, jobs, now, alarm);
        return jobs > 0 || waiters->partitions[kSeveralQueues].unsure > 0 ||
               core::may_be_unsure(core::FilterDigest{}, lane);
    });
}

// Promises jobs to other sleepers when the sleeper to which they were promised does not claim all of them. Considers
// only sleepers that were in the list when the promise was made, because sleepers that were added later have scanned
// the table since then. Therefore, a job that no claim takes is not promised again and again.
void hand_on(const Trip &trip) {
    const Promise &from = trip.promise;
    if (from.jobs <= 0) return;
    // If the queue of a job is not listed, any of the queues might have the job.
    const bool all = from.queues.empty();
    for (int place = 0; place < trip.count; place++) {
        if (!all && !from.queues.has(place)) continue;
        const QueueKey queue = {trip.digests[place], {}};
        if (from.lanes == Lanes::One)
            offer_jobs(queue, from.lane, from.jobs, from.made_at);
        else
            let_look_for(queue, from.jobs);
    }
}

// Makes another sleeper scan the table for jobs of these queues. One sleeper per filter is enough, because a claim that
// leaves jobs wakes the next sleeper.
void let_others_look(const Trip &trip) {
    for (int place = 0; place < trip.count; place++) let_look_for({trip.digests[place], {}}, 1);
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

// Returns the entry of a worker that has waited in another session, or nullptr. With a connection pooler, a worker can
// wait in one session and claim in another session.
Waiter *entry_of_worker(Partition *partition, const QueueKey &queue, int64 worker) {
    Waiter *found = nullptr;
    for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
        int place;
        if (waiter->awake && waiter->worker == worker && waits_for(*waiter, queue, &place) != core::Wants::No)
            found = waiter;
    });
    return found;
}

void begin_trip(const Waiter &waiter, Trip *trip) {
    trip->promise = waiter.promise;
    trip->asked = waiter.asked;
    trip->filter_hash = waiter.filter_hash;
    trip->wait_hash = waiter.wait_hash;
    trip->several = waiter.queues.several;
    trip->count = waiter.queues.count;
    memcpy(trip->digests, waiter.queues.digests, sizeof(uint64) * static_cast<Size>(waiter.queues.count));
}

// Returns whether it is certain that the claim saw all promised jobs that were still claimable, if it has read their
// queues.
bool has_seen_promised(const Promise &promise, const core::WorkerFilter &filter) {
    if (IsolationUsesXactSnapshot()) return false;
    const core::FilterDigest digest = core::digest_of(filter);
    if (core::hash_of_digest(digest) == claiming.filter_hash) return true;
    return promise.lanes == Lanes::One && core::wants_lane(digest, promise.lane) != core::Wants::No;
}

// Returns the place of the queue among the queues for which the session has waited, or -1.
int place_of_queue(const Trip &trip, std::string_view queue) {
    return place_in(trip.digests, trip.count, key_of_queue(queue).digest);
}

bool waits_for_any(const Waiter &waiter, const ClaimedQueues &queues) {
    int place;
    return std::any_of(queues.names, queues.names + queues.count, [&](std::string_view name) {
        return waits_for(waiter, key_of_queue(name), &place) != core::Wants::No;
    });
}

// Removes from the promise the queues that the claim has read.
void remove_claimed_queues(Trip *trip, const ClaimedQueues &queues) {
    QueueBits left = trip->promise.queues;
    for (int i = 0; i < queues.count; i++) {
        const int place = place_of_queue(*trip, queues.names[i]);
        if (place >= 0) left.remove(place);
    }
    if (left.empty()) trip->promise.jobs = 0;
    trip->promise.queues = left;
}

// Removes this session from the list. Unless `keeps` is true, the jobs that were promised to this session are offered
// to other sleepers. If this session is the lookout, another sleeper scans the table instead.
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

// Removes the session from the list when it exits during a wait. If the client has closed the connection normally after
// a wait, the jobs are not promised to other sleepers, because the client might claim them in another connection.
void leave_at_exit(int code, Datum) {
    if (own_waiter != nullptr) leave(own_waiter->awake && code == 0);
}

}  // namespace

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

void begin_claim(const ClaimedQueues &queues, std::string_view worker_id) {
    claiming.promise.jobs = 0;
    claiming.several = false;
    claiming.asked = {};
    claiming.wait_hash = claiming.filter_hash = 0;
    if (!shared_memory_ready()) return;
    if (own_waiter != nullptr && waits_for_any(*own_waiter, queues)) {
        with_partition(own_partition, [](Partition *, core::Micros, Alarm *) {
            if (!own_waiter->listed) return;
            begin_trip(*own_waiter, &claiming);
            own_waiter->claiming = true;
        });
        return;
    }
    int64 worker = 0;
    for (int i = 0; i < queues.count; i++) {
        const QueueKey queue = key_of_queue(queues.names[i]);
        for (const int index : {partition_of(queue), kSeveralQueues}) {
            if (pg_atomic_read_u32(&waiters->partitions[index].promised) == 0) continue;
            if (worker == 0) worker = core::worker_key(worker_id);
            if (worker == last_worker) return;
            bool found = false;
            with_partition(index, [&](Partition *partition, core::Micros, Alarm *) {
                Waiter *waiter = entry_of_worker(partition, queue, worker);
                found = waiter != nullptr;
                if (!found) return;
                begin_trip(*waiter, &claiming);
                take_off(partition, waiter);
            });
            if (found) return;
        }
    }
}

bool leave_after_claim() {
    if (own_waiter == nullptr || !own_waiter->claiming) return false;
    leave(true);
    // No lock is needed, because no other process writes to an entry that is in no list.
    claiming.asked = waiters->items[MyProc - ProcGlobal->allProcs].asked;
    return !claiming.asked.empty();
}

bool is_asked_for(std::string_view queue) {
    if (!shared_memory_ready()) return false;
    const int place = place_of_queue(claiming, queue);
    return place >= 0 && claiming.asked.has(place);
}

bool ends_wait_for_several() { return claiming.several && claiming.promise.jobs > 0; }

void end_claim(const core::WorkerFilter &filter, int claimed, const ClaimedQueues &queues) {
    if (claiming.promise.jobs == 0) return;
    Promise *promise = &claiming.promise;
    note_promised_claim(claimed > 0);
    if (has_seen_promised(*promise, filter) || promise->jobs <= claimed || promise->lanes == Lanes::Unknown)
        remove_claimed_queues(&claiming, queues);
    else
        promise->jobs -= claimed;
    hand_on(claiming);
    promise->jobs = 0;
}

bool anybody_waits(std::string_view name) {
    if (!shared_memory_ready()) return false;
    const QueueKey queue = key_of_queue(name);
    if (!is_empty(&waiters->partitions[partition_of(queue)].list)) return true;
    if (is_empty(&waiters->partitions[kSeveralQueues].list)) return false;
    bool found = false;
    LWLockAcquire(lock_of(kSeveralQueues), LW_SHARED);
    while_sleeper<Waiter>(&waiters->partitions[kSeveralQueues].list, [&](Waiter *waiter) {
        int place;
        found = waits_for(*waiter, queue, &place) != core::Wants::No;
        return !found;
    });
    LWLockRelease(lock_of(kSeveralQueues));
    return found;
}

bool wake_next_waiter(std::string_view name, const core::LaneTraits &lane) {
    const QueueKey queue = key_of_queue(name);
    bool woken = false, same = false;
    with_waiters_of(queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        while_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
            int place;
            if (waits_for(*waiter, queue, &place) != core::Wants::Yes) return true;
            if (is_expected(*waiter, now) && core::wants_lane(waiter->digest, lane) == core::Wants::Yes) {
                if (waiter->claiming) {
                    waiter->asked.add(place);
                } else {
                    add_lane(&waiter->promise, lane);
                    waiter->promise.queues.add(place);
                }
                woken = true;
            } else {
                woken = offer(partition, waiter, place, lane, 1, entries_so_far(), now, alarm) > 0;
            }
            // A claim that has begun might already have read the other queues.
            if (woken)
                same = !waiter->claiming && waiter->wait_hash == claiming.wait_hash &&
                       waiter->filter_hash == claiming.filter_hash;
            return !woken;
        });
        if (!woken) let_unlisted_look(partition, queue, 1, now, alarm);
        return !woken;
    });
    return same;
}

void hand_on_failed_claim() {
    const bool asked = leave_after_claim();
    for (int place = 0; asked && place < claiming.count; place++)
        if (claiming.asked.has(place)) let_look_for({claiming.digests[place], {}}, 1);
    if (claiming.promise.jobs == 0) return;
    hand_on(claiming);
    claiming.promise.jobs = 0;
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
            // The queue might have been paused or resumed. Until the scan, none of its jobs are promised to the
            // sleeper; the scan finds the jobs that arrive in the meantime.
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
