// Limits: how many jobs of a queue or of a key may run at once, and how many may start in a span of time.
#pragma once

#include "core/clock.h"
#include "core/job.h"
#include "core/keyed_hash.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace jobq::core {

// A running job of a limited queue or key holds a slot of the limit. A slot is one number: the limit's keyed hash in
// the upper 44 bits, the number of the slot, from 1, in the lower 20. Two limits with the same hash share their slots:
// less may run then, never more.
constexpr int kSlotBits = 20;
constexpr std::int64_t kNumberMask = (std::int64_t{1} << kSlotBits) - 1;
constexpr std::int32_t kMaxRunning = 1000000;
constexpr std::int32_t kHighestNumber = kNumberMask - 1;
static_assert(kMaxRunning < kHighestNumber, "the number must fit");
// highest_slot of a limit under which jobs may run that hold no slot at all.
constexpr std::int32_t kSlotsMissing = kHighestNumber + 1;

// The key that stands for each key of a queue.
constexpr std::string_view kEachKey = "*";
constexpr std::size_t kMaxConcurrencyKeyBytes = 255;

// The numbers of the limit of a whole queue, and of the limit of one of its keys: keyed hashes whose lower 20 bits are
// 0.
std::int64_t queue_limit_hash(const HashKey &secret, std::string_view queue) noexcept;
std::int64_t key_limit_hash(const HashKey &secret, std::string_view queue, std::string_view key) noexcept;

constexpr std::int64_t slot_of(std::int64_t limit, std::int32_t number) noexcept { return limit | number; }
constexpr std::int64_t limit_of_slot(std::int64_t slot) noexcept { return slot & ~kNumberMask; }
constexpr std::int32_t number_of_slot(std::int64_t slot) noexcept {
    return static_cast<std::int32_t>(slot & kNumberMask);
}

// So many may run when jobs hold slots with other numbers than 1 to `max_running`, as they do after a limit was
// lowered: a new claim may take a number up to the result, and no more than `max_running` run then. `taken` are the
// numbers that are held, ascending and different.
std::int32_t usable_numbers(const std::int32_t *taken, int count, std::int32_t max_running) noexcept;

// A token bucket: it holds `burst` tokens and gets one each `interval`.
struct Rate {
    Micros interval;     // 0: no rate
    std::int32_t burst;  // tokens that fit
};

// `rate` tokens each `per`, rounded so that it is never exceeded. The interval is 0 when that is faster than a token a
// microsecond.
Rate make_rate(std::int32_t rate, Micros per) noexcept;

// All that has to be known of a bucket: when it will be full again if nobody takes a token.
struct Bucket {
    Micros full_at;
};
static_assert(std::is_trivially_copyable_v<Bucket> && std::is_trivially_copyable_v<Rate>, "lives in shared memory");

// A bucket that is empty at this moment.
Bucket empty_bucket(const Rate &rate, Micros now) noexcept;
std::int32_t tokens_in(const Bucket &bucket, const Rate &rate, Micros now) noexcept;
// When there is a token: `now` or later.
Micros next_token(const Bucket &bucket, const Rate &rate, Micros now) noexcept;
// Takes a token; false, and nothing changed, when there is none.
bool take_token(Bucket *bucket, const Rate &rate, Micros now) noexcept;
// Puts one back that was not used.
void return_token(Bucket *bucket, const Rate &rate) noexcept;

// What is left of buckets that had to make room for others: the time at which the last of them is full, for each queue
// separately, so that what one queue has spent empties no bucket of another queue. If there are more queues than
// places, queues of the database with the most places share one time, which then counts for all queues of that
// database.
struct ForgottenBuckets {
    static constexpr int kQueues = 8;
    static constexpr std::int64_t kSharedTime = std::numeric_limits<std::int64_t>::min();  // no queue_limit_id
    struct Queue {
        std::uint32_t database;  // 0: free
        std::int64_t queue;      // its queue_limit_id, or kSharedTime
        Micros full_at;
    } queues[kQueues];
    Micros others;  // counts for all databases: the latest time that had no place
};
static_assert(std::is_trivially_copyable_v<ForgottenBuckets>, "lives in shared memory");
void forget_bucket(ForgottenBuckets *forgotten, std::uint32_t database, std::int64_t queue, const Bucket &bucket,
                   Micros now) noexcept;
// No bucket of the queue is full before that.
Micros forgotten_until(const ForgottenBuckets &forgotten, std::uint32_t database, std::int64_t queue) noexcept;

}  // namespace jobq::core
