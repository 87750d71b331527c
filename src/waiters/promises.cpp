// See promises.h.
#include "compat/pg.h"

#include "waiters/promises.h"

#include <algorithm>

namespace jobq {

namespace {

// ---- The caller of each of these functions must hold the partition's lock.

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

}  // namespace

void signal(Waiter *waiter, uint32 which, Alarm *alarm) {
    pg_atomic_fetch_or_u32(&waiter->signals, which);
    alarm->add(waiter->sleeper);
}

void add_lane(Promise *promise, const core::LaneTraits &lane) {
    if (promise->lanes == Lanes::Unknown) {
        promise->lanes = Lanes::One;
        promise->lane = lane;
    } else if (memcmp(&promise->lane, &lane, sizeof(lane)) != 0) {
        promise->lanes = Lanes::Several;
    }
}

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

void let_unlisted_look(Partition *partition, const QueueKey &queue, int64 jobs, core::Micros now, Alarm *alarm) {
    if (partition != &waiters->partitions[kSeveralQueues]) return;
    Looks looks = {};
    let_some_look(partition, queue, jobs, Lookers::Unlisted, &looks, now, alarm);
}

void let_look_for(const QueueKey &queue, int64 jobs) {
    Looks looks = {};
    with_waiters_of(queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        let_some_look(partition, queue, jobs, Lookers::All, &looks, now, alarm);
        return true;
    });
}

void offer_jobs(const QueueKey &queue, const core::LaneTraits &lane, int64 jobs, uint64 made_at) {
    with_waiters_of(queue, [&](Partition *partition, core::Micros now, Alarm *alarm) {
        jobs = offer_to_all(partition, queue, lane, jobs, made_at, now, alarm);
        if (jobs > 0) let_unlisted_look(partition, queue, jobs, now, alarm);
        return jobs > 0 || waiters->partitions[kSeveralQueues].unsure > 0 ||
               core::may_be_unsure(core::FilterDigest{}, lane);
    });
}

void begin_trip(const Waiter &waiter, Trip *trip) {
    trip->promise = waiter.promise;
    trip->asked = waiter.asked;
    trip->filter_hash = waiter.filter_hash;
    trip->wait_hash = waiter.wait_hash;
    trip->several = waiter.queues.several;
    trip->count = waiter.queues.count;
    trip->excluded = waiter.queues.excluded;
    memcpy(trip->digests, waiter.queues.digests, sizeof(uint64) * static_cast<Size>(waiter.queues.count));
}

void hand_on(const Trip &trip) {
    const Promise &from = trip.promise;
    if (from.jobs <= 0) return;
    // If the queue of a job is not listed, any of the queues might have the job.
    const bool all = from.queues.empty();
    for (int place = 0; place < trip.count; place++) {
        if (trip.excluded.has(place) || (!all && !from.queues.has(place))) continue;
        const QueueKey queue = {trip.digests[place], {}};
        if (from.lanes == Lanes::One)
            offer_jobs(queue, from.lane, from.jobs, from.made_at);
        else
            let_look_for(queue, from.jobs);
    }
}

void let_others_look(const Trip &trip) {
    for (int place = 0; place < trip.count; place++)
        if (!trip.excluded.has(place)) let_look_for({trip.digests[place], {}}, 1);
}

}  // namespace jobq
