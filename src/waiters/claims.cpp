// See claims.h.
#include "compat/pg.h"

#include "waiters/claims.h"
#include "waiters/lookout.h"
#include "waiters/promises.h"
#include "waiters/wake_notes_policy.h"

#include <algorithm>

namespace jobq {

namespace {

Trip claiming;  // the wait that the claim in progress ends

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

// Makes another sleeper check each queue that does not belong to the claim, if other sessions rely on this worker to
// find the jobs of that queue.
void let_look_for_unclaimed(const ClaimedQueues &queues) {
    const bool relied_on = ends_wait_for_several();
    if (!relied_on && claiming.asked.empty()) return;
    QueueBits unclaimed;
    unclaimed.add_all();
    for (int i = 0; i < queues.count; i++) {
        const int place = place_of_queue(claiming, queues.names[i]);
        if (place >= 0) unclaimed.remove(place);
    }
    for (int place = 0; place < claiming.count; place++) {
        if (!unclaimed.has(place) || claiming.excluded.has(place)) continue;
        if (relied_on || claiming.asked.has(place)) let_look_for({claiming.digests[place], {}}, 1);
        claiming.asked.remove(place);
    }
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

}  // namespace

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

bool leave_after_claim(const ClaimedQueues &queues) {
    if (own_waiter != nullptr && own_waiter->claiming) {
        leave(true);
        // No lock is needed, because no other process writes to an entry that is in no list.
        claiming.asked = waiters->items[MyProc - ProcGlobal->allProcs].asked;
    }
    let_look_for_unclaimed(queues);
    return !claiming.asked.empty();
}

bool is_asked_for(std::string_view queue) {
    if (!shared_memory_ready()) return false;
    const int place = place_of_queue(claiming, queue);
    return place >= 0 && claiming.asked.has(place);
}

bool ends_wait_for_several() { return claiming.several && claiming.promise.jobs > 0; }

void end_claim(const core::WorkerFilter &filter, int claimed, const ClaimedQueues &queues) {
    claiming.asked = {};
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
    leave_after_claim({nullptr, 0});
    if (claiming.promise.jobs == 0) return;
    hand_on(claiming);
    claiming.promise.jobs = 0;
}

}  // namespace jobq
