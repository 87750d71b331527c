// What the totals of a queue and kind count, and when: from the job before and the job after, nothing else. How long
// jobs waited and ran goes into histograms whose buckets double. Pure; the door asks (job/change_job.cpp).
//
// Each claim ends in exactly one of five ways (Tally::Attempt...); each job is enqueued once and deleted once. So at
// any moment, of all that is committed:
//   jobs that there are = enqueued - deleted
//   running jobs        = claimed - the five ends
#pragma once

#include "job/life_policy.h"

namespace jobq::core {

// (name, the family of exposition/families_policy.h in which it is told, its label "outcome").
// clang-format off
#define JOBQ_TALLIES(TALLY)                                 \
    TALLY(Enqueued, JobsEnqueued, "")                       \
    TALLY(Claimed, JobsClaimed, "")                         \
    TALLY(AttemptCompleted, AttemptsEnded, "completed")     \
    TALLY(AttemptFailed, AttemptsEnded, "failed")           \
    TALLY(AttemptLost, AttemptsEnded, "lost")               \
    TALLY(AttemptReleased, AttemptsEnded, "released")       \
    TALLY(AttemptWithdrawn, AttemptsEnded, "withdrawn")     \
    TALLY(Completed, JobsCompleted, "")                     \
    TALLY(Failed, JobsFailed, "")                           \
    TALLY(Cancelled, JobsCancelled, "")                     \
    TALLY(Dropped, JobsDropped, "")                         \
    TALLY(Retried, JobsRetried, "")                         \
    TALLY(Deleted, JobsDeleted, "")
// clang-format on

enum class Tally : std::uint8_t {
#define JOBQ_TALLY(name, family, outcome) name,
    JOBQ_TALLIES(JOBQ_TALLY)
#undef JOBQ_TALLY
};
#define JOBQ_TALLY(name, family, outcome) +1
constexpr int kTallies = 0 JOBQ_TALLIES(JOBQ_TALLY);
#undef JOBQ_TALLY

using Tallies = std::uint32_t;  // a bit for each
constexpr Tallies bit_of(Tally tally) noexcept { return 1U << static_cast<unsigned>(tally); }

// What happened to a job.
struct Happened {
    Tallies tallies;
    Maybe waited;  // at its claim: since it was due
    Maybe ran;     // at the end of an attempt that a worker, or max_runtime, has ended
};
Happened what_happened(const Life &before, const Life &after) noexcept;
Happened what_happened_to_new(const Life &job) noexcept;
Happened what_happened_to_gone(JobStatus before) noexcept;

// ---- histograms

// The upper bounds: 1 ms, 2 ms, 4 ms ... 2.3 hours; one bucket more for what is longer.
constexpr int kBounds = 24;
constexpr int kBuckets = kBounds + 1;
constexpr Micros bound_of(int bucket) noexcept { return kMillisecond << bucket; }
// The first bucket whose bound is not below the span.
int bucket_of(Micros span) noexcept;

enum class Span : std::uint8_t { Wait, Run };
constexpr int kSpans = 2;

// The totals of a queue and kind, or by how much they change: the tallies, and for each span its buckets and the sum of
// its microseconds. One array, since it is added up, stored and read as one.
struct SeriesNumbers {
    static constexpr int kPerSpan = kBuckets + 1;
    static constexpr int kCount = kTallies + kSpans * kPerSpan;
    std::int64_t values[kCount];

    static constexpr int of(Tally tally) noexcept { return static_cast<int>(tally); }
    static constexpr int of(Span span, int bucket) noexcept {
        return kTallies + static_cast<int>(span) * kPerSpan + bucket;
    }
    static constexpr int sum_of(Span span) noexcept { return of(span, kBuckets); }
};
static_assert(std::is_trivially_copyable_v<SeriesNumbers>, "is copied from and to shared memory, and a file");

// Of two numbers of a series. Some 300,000 spans of a year are more than a sum can hold: it stays at the highest then,
// since what only counts up must not be negative.
std::int64_t sum_of_numbers(std::int64_t a, std::int64_t b) noexcept;
void note(SeriesNumbers *numbers, const Happened &happened) noexcept;
void add_numbers(SeriesNumbers *to, const SeriesNumbers &more) noexcept;

}  // namespace jobq::core
