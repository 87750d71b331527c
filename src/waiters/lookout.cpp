// See lookout.h.
#include "compat/pg.h"

#include "waiters/lookout.h"
#include "waiters/promises.h"
#include "waiters/waiter.h"
#include "waiters/waiters.h"

namespace jobq {

namespace {

// Number of consecutive useless wake-ups after which a session becomes the lookout. A single useless wake-up can be a
// coincidence.
constexpr int kUselessWakes = 2;
// How long a queue uses lookouts before it tries wake-ups again. If wake-ups are still useless, the queue returns to
// lookouts.
constexpr core::Micros kLookoutSpell = 5 * core::kSecond;
// Minimum number of commits, claims, and sleepers that must have relied on a lookout's scan. If fewer have relied on
// it, the lookout appoints no other lookout when it leaves, because wake-ups are then better: they cost little and
// start jobs earlier than scans by a lookout would.
constexpr uint32 kMinRelying = 4;

// Number of consecutive useless wake-ups of this session, which are claims that got no job although jobs had been
// promised to them.
int useless_wakes = 0;
// Number of commits, claims, and sleepers that have relied on the current scan by this session as the lookout.
uint32 relied = 0;

bool is_lookout(Waiter *waiter) {
    return !waiter->awake && (pg_atomic_read_u32(&waiter->signals) & (kLookoutSignal | kJobSignal)) == kLookoutSignal;
}

void make_lookout(Partition *partition, Waiter *waiter, core::Micros now, core::Micros until, uint32 relying) {
    waiter->looked_at = now;
    waiter->lookout_until = until;
    pg_atomic_write_u32(&waiter->relying, relying);
    pg_atomic_fetch_or_u32(&waiter->signals, kLookoutSignal);
    move_to_front(&partition->list, &waiter->sleeper);
}

// Makes the caller rely on the first lookout in the partition that has scanned recently and for which accepts(lookout)
// is true. Returns false if there is no such lookout.
template <typename Accepts>
bool rely_on_lookout(int partition, Accepts accepts) {
    if (!has_waiters(partition)) return false;
    const core::Micros now = monotonic_now();
    bool relies = false;
    LWLockAcquire(lock_of(partition), LW_SHARED);
    while_sleeper<Waiter>(&waiters->partitions[partition].list, [&](Waiter *waiter) {
        relies = is_lookout(waiter) && now - waiter->looked_at < kOnItsWay && accepts(*waiter);
        if (relies) pg_atomic_fetch_add_u32(&waiter->relying, 1);
        return !relies;
    });
    LWLockRelease(lock_of(partition));
    return relies;
}

}  // namespace

void begin_look() {
    if (own_waiter == nullptr) return;
    const uint32 signals = pg_atomic_fetch_and_u32(&own_waiter->signals, ~kLookSignal);
    relied = (signals & kLookoutSignal) == 0 ? 0 : pg_atomic_exchange_u32(&own_waiter->relying, 0);
}

void end_look() {
    if (own_waiter == nullptr) return;
    const bool lookout = has_signal(own_waiter, kLookoutSignal);
    if (lookout ? relied > 0 : useless_wakes < kUselessWakes) return;
    useless_wakes = 0;
    with_partition(own_partition, [&](Partition *partition, core::Micros now, Alarm *) {
        if (lookout) {
            if (pg_atomic_read_u32(&own_waiter->relying) == 0)
                pg_atomic_fetch_and_u32(&own_waiter->signals, ~kLookoutSignal);
            return;
        }
        bool another = false;
        for_each_sleeper<Waiter>(&partition->list, [&](Waiter *waiter) {
            another |= is_lookout(waiter) && same_wait(*waiter, *own_waiter);
        });
        if (!another) make_lookout(partition, own_waiter, now, now + kLookoutSpell, 0);
    });
}

bool lookout_scans() {
    return own_waiter != nullptr && rely_on_lookout(own_partition, [](const Waiter &waiter) {
               return same_wait(waiter, *own_waiter) && !all_paused(waiter);
           });
}

bool leave_to_lookout(const QueueKey &queue, const core::LaneTraits &lane, int64 jobs) {
    const auto takes = [&](const Waiter &waiter) {
        int place;
        return jobs <= waiter.batch && core::wants_lane(waiter.digest, lane) == core::Wants::Yes &&
               waits_for(waiter, queue, &place) == core::Wants::Yes && !waiter.paused.has(place);
    };
    return rely_on_lookout(partition_of(queue), takes) || rely_on_lookout(kSeveralQueues, takes);
}

bool leave_to_lookout(std::string_view queue, const core::LaneTraits &lane, int64 jobs) {
    return shared_memory_ready() && leave_to_lookout(key_of_queue(queue), lane, jobs);
}

void note_promised_claim(bool got_any) { useless_wakes = got_any ? 0 : useless_wakes + 1; }

bool end_lookout(Partition *partition, core::Micros now, Alarm *alarm) {
    if (!has_signal(own_waiter, kLookoutSignal)) return true;
    pg_atomic_fetch_and_u32(&own_waiter->signals, ~kLookoutSignal);
    // Also counts the commits, claims, and sleepers that relied on the last scan, because that scan might have failed.
    const uint32 relying = pg_atomic_exchange_u32(&own_waiter->relying, 0) + relied;
    if (relying == 0) return true;
    Waiter *next = nullptr;
    while_sleeper<Waiter>(&partition->list, [&](Waiter *other) {
        if (other != own_waiter && !other->awake && !all_paused(*other) && !has_signal(other, kJobSignal) &&
            same_wait(*other, *own_waiter))
            next = other;
        return next == nullptr;
    });
    if (next == nullptr) return false;
    if (relying >= kMinRelying && now < own_waiter->lookout_until) {
        make_lookout(partition, next, now, own_waiter->lookout_until, relying);
        alarm->add(next->sleeper);
    } else {
        assign_jobs(partition, next, -1, 1, now, alarm);
    }
    return true;
}

}  // namespace jobq
