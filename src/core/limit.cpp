// See limit.h.
#include "core/limit.h"

#include <algorithm>

namespace jobq::core {

namespace {

// Returns the time at which the bucket is full again. The result is at most the time at which a bucket that is empty
// now would be full, because bucket.full_at can be far in the future if the clock was set back.
Micros full_at(const Bucket &bucket, const Rate &rate, Micros now) {
    return std::min(std::max(bucket.full_at, now), saturating_add(now, rate.interval * rate.burst));
}

}  // namespace

std::int64_t queue_limit_hash(const HashKey &secret, std::string_view queue) noexcept {
    KeyedHash hash(secret, Numbered::QueueLimit);
    hash.add_part(queue);
    return limit_of_slot(hash.value());
}

std::int64_t key_limit_hash(const HashKey &secret, std::string_view queue, std::string_view key) noexcept {
    KeyedHash hash(secret, Numbered::KeyLimit);
    hash.add_part(queue);
    hash.add_part(key);
    return limit_of_slot(hash.value());
}

std::int64_t kind_limit_hash(const HashKey &secret, std::string_view queue, std::string_view kind) noexcept {
    KeyedHash hash(secret, Numbered::KindLimit);
    hash.add_part(queue);
    hash.add_part(kind);
    return limit_of_slot(hash.value());
}

std::int64_t named_limit_hash(const HashKey &secret, std::string_view name) noexcept {
    KeyedHash hash(secret, Numbered::NamedLimit);
    hash.add_part(name);
    return limit_of_slot(hash.value());
}

std::int32_t usable_numbers(const std::int32_t *taken, int count, std::int32_t max_running) noexcept {
    // A job that holds a slot with a number above `usable` still counts against the limit, so each such job reduces the
    // number of slots that other jobs can use.
    std::int32_t usable = max_running;
    for (;;) {
        const auto *above = std::upper_bound(taken, taken + count, usable);
        const auto besides = static_cast<std::int32_t>(taken + count - above);
        const std::int32_t left = std::max(max_running - besides, 0);
        if (left >= usable) return usable;
        usable = left;
    }
}

Rate make_rate(std::int32_t rate, Micros per) noexcept {
    if (rate <= 0 || per < rate) return {0, 0};
    return {per / rate + (per % rate != 0 ? 1 : 0), rate};
}

Bucket empty_bucket(const Rate &rate, Micros now) noexcept { return {saturating_add(now, rate.interval * rate.burst)}; }

std::int32_t tokens_in(const Bucket &bucket, const Rate &rate, Micros now) noexcept {
    const Micros missing = full_at(bucket, rate, now) - now;
    return rate.burst - static_cast<std::int32_t>((missing + rate.interval - 1) / rate.interval);
}

Micros next_token(const Bucket &bucket, const Rate &rate, Micros now) noexcept {
    return std::max(now, full_at(bucket, rate, now) - rate.interval * (rate.burst - 1));
}

bool take_token(Bucket *bucket, const Rate &rate, Micros now) noexcept {
    if (next_token(*bucket, rate, now) > now) return false;
    bucket->full_at = full_at(*bucket, rate, now) + rate.interval;
    return true;
}

void return_token(Bucket *bucket, const Rate &rate) noexcept { bucket->full_at -= rate.interval; }

void forget_bucket(ForgottenBuckets *forgotten, std::uint32_t database, std::int64_t queue, const Bucket &bucket,
                   Micros now) noexcept {
    using Queue = ForgottenBuckets::Queue;
    constexpr int kAll = ForgottenBuckets::kQueues + 1;
    // All remembered times, followed by the new time.
    Queue all[kAll];
    std::copy(std::begin(forgotten->queues), std::end(forgotten->queues), all);
    all[kAll - 1] = {database, queue, bucket.full_at};
    for (Queue &known : all) {
        if (&known != &all[kAll - 1] && known.database == database && known.queue == queue) {
            all[kAll - 1].full_at = std::max(known.full_at, bucket.full_at);
            known = {};
        }
    }
    const auto places_of = [&](const Queue &one) {
        return std::count_if(all, all + kAll, [&](const Queue &other) { return other.database == one.database; });
    };
    const auto gives_way_later = [&](const Queue &a, const Queue &b) {
        const auto places_a = places_of(a), places_b = places_of(b);
        return places_a != places_b ? places_a < places_b : a.full_at > b.full_at;
    };
    const std::uint32_t largest = std::max_element(all, all + kAll, gives_way_later)->database;
    // There is one more time than there are entries. The times are sorted so that the first one can be dropped: free
    // entries and times that have passed come first, then the shared time of the database with the most entries, then
    // the times of the queues in that database, and then all other times.
    const auto rank = [&](const Queue &one) {
        if (one.database == 0 || one.full_at <= now) return 0;
        return one.database != largest ? 3 : one.queue == ForgottenBuckets::kSharedTime ? 1 : 2;
    };
    std::sort(all, all + kAll, [&](const Queue &a, const Queue &b) {
        return rank(a) != rank(b) ? rank(a) < rank(b) : a.full_at < b.full_at;
    });
    // Remembers the dropped time in `others` even if the time has passed, because the time counts again if the clock is
    // set back.
    if (all[0].full_at > now && all[0].database == all[1].database)
        all[1] = {largest, ForgottenBuckets::kSharedTime, std::max(all[0].full_at, all[1].full_at)};
    else if (all[0].database != 0)
        forgotten->others = std::max(forgotten->others, all[0].full_at);
    std::copy(all + 1, all + kAll, forgotten->queues);
}

Micros forgotten_until(const ForgottenBuckets &forgotten, std::uint32_t database, std::int64_t queue) noexcept {
    Micros until = forgotten.others;
    for (const ForgottenBuckets::Queue &known : forgotten.queues)
        if (known.database == database && (known.queue == queue || known.queue == ForgottenBuckets::kSharedTime))
            until = std::max(until, known.full_at);
    return until;
}

}  // namespace jobq::core
