// Limits on how many jobs may run at the same time, and on how many may start in a span of time. A limit applies to a
// queue, a concurrency key, a kind, or all jobs that name the limit.
#pragma once

#include "core/clock.h"
#include "core/job.h"
#include "core/keyed_hash.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace jobq::core {

// A running job that counts toward a limit holds a slot of this limit. A slot is a 64-bit number: the upper 44 bits
// contain the keyed hash of the limit, and the lower 20 bits contain the number of the slot, counted from 1. If two
// limits have the same hash, they share their slots, so fewer jobs than the limits allow might run, but never more.
constexpr int kSlotBits = 20;
constexpr std::int64_t kNumberMask = (std::int64_t{1} << kSlotBits) - 1;
constexpr std::int32_t kMaxRunning = 1000000;
constexpr std::int32_t kHighestNumber = kNumberMask - 1;
static_assert(kMaxRunning < kHighestNumber, "the number must fit");
// Value of highest_slot for a limit if some of its jobs might be running without a slot.
constexpr std::int32_t kSlotsMissing = kHighestNumber + 1;

// Name used in place of a concurrency key or kind to set the limit of each key or kind of a queue that has no limit of
// its own.
constexpr std::string_view kEachKey = "*";
constexpr std::size_t kMaxConcurrencyKeyBytes = 255;

// Bounds of named limits.
constexpr std::size_t kMaxLimitNameBytes = 63;
constexpr int kMaxLimitsOfJob = 2;
constexpr int kMaxQueuesOfLimit = 100;

// Each of these functions returns the number that identifies a limit: the limit of a whole queue, of one of its
// concurrency keys, or of one of its kinds, or a named limit, which belongs to no queue. The number is a keyed hash
// whose lower 20 bits are 0.
std::int64_t queue_limit_hash(const HashKey &secret, std::string_view queue) noexcept;
std::int64_t key_limit_hash(const HashKey &secret, std::string_view queue, std::string_view key) noexcept;
std::int64_t kind_limit_hash(const HashKey &secret, std::string_view queue, std::string_view kind) noexcept;
std::int64_t named_limit_hash(const HashKey &secret, std::string_view name) noexcept;

constexpr std::int64_t slot_of(std::int64_t limit, std::int32_t number) noexcept { return limit | number; }
constexpr std::int64_t limit_of_slot(std::int64_t slot) noexcept { return slot & ~kNumberMask; }
constexpr std::int32_t number_of_slot(std::int64_t slot) noexcept {
    return static_cast<std::int32_t>(slot & kNumberMask);
}

// Returns the highest slot number that a new claim may take, so that at most `max_running` jobs run. The result is
// lower than `max_running` if jobs hold slots with higher numbers, which can happen after a limit has been lowered.
// `taken` contains the numbers of the slots that are held, in ascending order and without duplicates.
std::int32_t usable_numbers(const std::int32_t *taken, int count, std::int32_t max_running) noexcept;

// A rate limit, implemented as a token bucket that holds up to `burst` tokens and gets one token per `interval`. A job
// takes a token to start.
struct Rate {
    Micros interval;     // 0: no rate
    std::int32_t burst;  // maximum number of tokens
};

// Returns the Rate for `rate` tokens per time span `per`. Its interval is rounded up, so that the rate is never
// exceeded. The interval is 0 if the rate exceeds one token per microsecond.
Rate make_rate(std::int32_t rate, Micros per) noexcept;

// The state of a token bucket: the time at which it will be full again if no job takes a token.
struct Bucket {
    Micros full_at;
};
static_assert(std::is_trivially_copyable_v<Bucket> && std::is_trivially_copyable_v<Rate>, "lives in shared memory");

// Returns a bucket that is empty now.
Bucket empty_bucket(const Rate &rate, Micros now) noexcept;
std::int32_t tokens_in(const Bucket &bucket, const Rate &rate, Micros now) noexcept;
// Returns the earliest time, from `now` on, at which a token is available.
Micros next_token(const Bucket &bucket, const Rate &rate, Micros now) noexcept;
// Takes a token. Returns false, without changing the bucket, if no token is available.
bool take_token(Bucket *bucket, const Rate &rate, Micros now) noexcept;
// Puts back a token that was not used.
void return_token(Bucket *bucket, const Rate &rate) noexcept;

// A summary of the token buckets that were evicted from shared memory: for each queue, the latest time at which one of
// its evicted buckets is full again. A new bucket of the queue is full only from that time on. If there are more queues
// than entries, the database with the most entries gets one shared entry, whose time counts for all queues in that
// database.
struct ForgottenBuckets {
    static constexpr int kQueues = 8;
    static constexpr std::int64_t kSharedTime = std::numeric_limits<std::int64_t>::min();  // not a queue_limit_id
    struct Queue {
        std::uint32_t database;  // 0: free
        std::int64_t queue;      // its queue_limit_id, or kSharedTime
        Micros full_at;
    } queues[kQueues];
    Micros others;  // for all databases: the latest time for which no entry was free
};
static_assert(std::is_trivially_copyable_v<ForgottenBuckets>, "lives in shared memory");
void forget_bucket(ForgottenBuckets *forgotten, std::uint32_t database, std::int64_t queue, const Bucket &bucket,
                   Micros now) noexcept;
// Returns the time until which a new bucket of the queue must not be assumed to be full.
Micros forgotten_until(const ForgottenBuckets &forgotten, std::uint32_t database, std::int64_t queue) noexcept;

}  // namespace jobq::core
