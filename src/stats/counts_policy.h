// The arithmetic of the counters: how jobs of a queue are counted, what a recount of the table says about commits
// that happen meanwhile, and rates. Pure.
#pragma once

#include "job/job_policy.h"

namespace jobq::core {

// What is counted since the server started, for rates.
enum class CountedEvent : std::uint8_t { Enqueued, Claimed, Completed, Failed, Lost };
constexpr int kEventCount = 5;

// By how much the numbers of a queue change, or what they are.
struct Counts {
    std::int64_t jobs[kJobStatusCount];
    std::int64_t events[kEventCount];
};
void add_counts(Counts *to, const Counts &more) noexcept;

// The transactions that a count of the table has seen: those with a number below `limit`, except the ones that were
// still running. 64-bit numbers, of which `running` holds the lower halves; none is older than limit - 2^31.
struct Seen {
    std::uint64_t limit;  // 0: nothing was counted yet
    const std::uint32_t *running;
    int running_count;
};
// Whether the jobs that transaction `xid`, which has committed, changed are contained in that count.
bool contains(const Seen &seen, std::uint64_t xid) noexcept;

// When a recount is due. `begun` and `ended` are those of the last one, 0: there was none. A recount rests in
// proportion to its cost: 20 times as long while the counters are unknown, else 100 times and at least `interval`.
Micros next_recount(bool known, Micros begun, Micros ended, Micros interval) noexcept;
// The same for jobq_tick() by hand: at once, unless the last recount was a long one.
Micros next_recount_by_hand(Micros begun, Micros ended) noexcept;

// The totals of a queue at a moment, taken before what happened at that moment was added.
struct Sample {
    Micros at;  // 0: none
    std::int64_t events[kEventCount];
};
constexpr int kSampleCount = 16;
constexpr Micros kSampleDistance = 5 * kSecond;
constexpr Micros kRateSpan = kMinute;
static_assert((kSampleCount - 1) * kSampleDistance > kRateSpan + 2 * kSampleDistance, "the samples cover the span");

// Whether it is time for another sample.
bool sample_due(Micros last, Micros now) noexcept;

// Events per second over about the last minute, or since `since`, when the queue was first counted. The samples come in
// any order.
void rates(const Sample *samples, int count, const std::int64_t *totals, Micros since, Micros now,
           double *per_second) noexcept;

}  // namespace jobq::core
