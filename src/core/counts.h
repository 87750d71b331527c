// The arithmetic of the job counters: adds up the counts of a queue, decides whether a recount already includes the
// changes of a concurrent commit, and computes rates per second.
#pragma once

#include "core/job.h"

namespace jobq::core {

// Kinds of events that are counted from the start of the server, so that rates can be computed.
enum class CountedEvent : std::uint8_t { Enqueued, Claimed, Completed, Failed, Lost };
constexpr int kEventCount = 5;

// The counts of a queue: jobs by status and events by kind. Also used for changes to these counts.
struct Counts {
    std::int64_t jobs[kJobStatusCount];
    std::int64_t events[kEventCount];
};
void add_counts(Counts *to, const Counts &more) noexcept;

// The transactions whose changes are included in a count of the jobs: all transactions with an ID below `limit`, except
// the transactions that were still running at the time of the count. `limit` is a 64-bit transaction ID. `running`
// contains only the lower 32 bits of the IDs of the running transactions, which is enough because no running
// transaction is older than limit - 2^31.
struct Seen {
    std::uint64_t limit;  // 0 if nothing has been counted yet
    const std::uint32_t *running;
    int running_count;
};
// Returns whether the count includes the changes of transaction `xid`, which has committed.
bool contains(const Seen &seen, std::uint64_t xid) noexcept;

// Returns the time at which a recount is due. `begun` and `ended` are the times at which the last recount began and
// ended, or 0 if there was none. The pause after a recount is proportional to the duration of the recount: 20 times the
// duration while the counters are unknown; otherwise 100 times the duration, but at least `interval`.
Micros next_recount(bool known, Micros begun, Micros ended, Micros interval) noexcept;
// Returns the earliest time at which a manual call to jobq_tick() is allowed to recount the jobs. The result is 0
// (immediately) unless the last recount took a long time.
Micros next_recount_by_hand(Micros begun, Micros ended) noexcept;

// The event totals of a queue at the time `at`, before the changes made at that time were added.
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

// Computes the number of events per second, averaged over about the last minute, or over the time since `since` if that
// time is shorter. `since` is the time at which the queue was first counted. The samples may be in any order.
void rates(const Sample *samples, int count, const std::int64_t *totals, Micros since, Micros now,
           double *per_second) noexcept;

}  // namespace jobq::core
