// The arithmetic of the job counters: the counts of a queue, whether a recount already contains a concurrent commit,
// and rates per second. Pure: calls no server functions.
#pragma once

#include "core/job.h"

namespace jobq::core {

// Events that are counted since the server started, for rates.
enum class CountedEvent : std::uint8_t { Enqueued, Claimed, Completed, Failed, Lost };
constexpr int kEventCount = 5;

// The counts of a queue: jobs by status and events by kind. Also used for changes to these counts.
struct Counts {
    std::int64_t jobs[kJobStatusCount];
    std::int64_t events[kEventCount];
};
void add_counts(Counts *to, const Counts &more) noexcept;

// The transactions whose changes a count of the table contains: all transactions with an ID below `limit`, except the
// ones that were still running. Transaction IDs have 64 bits here. `running` contains only their lower 32 bits, which
// is enough because no running transaction is older than limit - 2^31.
struct Seen {
    std::uint64_t limit;  // 0 if nothing has been counted yet
    const std::uint32_t *running;
    int running_count;
};
// Returns whether the count contains the changes of transaction `xid`, which has committed.
bool contains(const Seen &seen, std::uint64_t xid) noexcept;

// Returns when a recount is due. `begun` and `ended` are the times of the last recount; 0 means that there was none.
// The pause after a recount is proportional to the duration of the recount: 20 times the duration while the counters
// are unknown; otherwise 100 times the duration, but at least `interval`.
Micros next_recount(bool known, Micros begun, Micros ended, Micros interval) noexcept;
// Returns when jobq_tick() may recount if a user calls it: immediately, unless the last recount took a long time.
Micros next_recount_by_hand(Micros begun, Micros ended) noexcept;

// The event totals of a queue at the time `at`, before the changes of that moment were added.
struct Sample {
    Micros at;  // 0 if unused
    std::int64_t events[kEventCount];
};
constexpr int kSampleCount = 16;
constexpr Micros kSampleDistance = 5 * kSecond;
constexpr Micros kRateSpan = kMinute;
static_assert((kSampleCount - 1) * kSampleDistance > kRateSpan + 2 * kSampleDistance, "the samples cover the span");

// Returns whether another sample is due.
bool sample_due(Micros last, Micros now) noexcept;

// Computes events per second over about the last minute, or since `since`, when the queue was first counted. The
// samples may be in any order.
void rates(const Sample *samples, int count, const std::int64_t *totals, Micros since, Micros now,
           double *per_second) noexcept;

}  // namespace jobq::core
