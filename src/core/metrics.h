// Decides which totals of a queue and kind are incremented when a job changes. The decision depends only on the job
// before and after the change. job/change_job.cpp applies it to every change. Waiting times and running times are
// counted in histograms, in which each bound is twice the previous bound.
//
// Each attempt ends in exactly one of five ways (Tally::Attempt...), and each job is enqueued once and deleted at most
// once. Therefore, the following holds for all committed transactions together:
//   existing jobs = enqueued - deleted
//   running jobs  = claimed - sum of the attempts that ended in one of the five ways
#pragma once

#include "core/life.h"

namespace jobq::core {

// Each line contains the name of a tally, its metric family in metrics/families_policy.h, and the value of the label
// "outcome".
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
    TALLY(Expired, JobsExpired, "")                         \
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

using Tallies = std::uint32_t;  // one bit per Tally
constexpr Tallies bit_of(Tally tally) noexcept { return 1U << static_cast<unsigned>(tally); }

// The tallies to increment and the times to record for one change of a job.
struct Happened {
    Tallies tallies;
    OptInt64 waited;  // for a claim: time since the job was due
    OptInt64 ran;     // for the end of an attempt by a worker or by max_runtime: how long it ran
};
Happened what_happened(const Life &before, const Life &after) noexcept;
Happened what_happened_to_new(const Life &job) noexcept;
Happened what_happened_to_gone(JobStatus before) noexcept;

// ---- histograms

// Number of upper bounds of a histogram, which are 1 ms, 2 ms, 4 ms, ..., 2.3 hours. One more bucket counts longer
// spans.
constexpr int kBounds = 24;
constexpr int kBuckets = kBounds + 1;
constexpr Micros bound_of(int bucket) noexcept { return kMillisecond << bucket; }
// Returns the number of the first bucket whose upper bound is at least the span.
int bucket_of(Micros span) noexcept;

enum class Span : std::uint8_t { Wait, Run };
constexpr int kSpans = 2;

// The totals of a queue and kind, or changes to these totals. They consist of the tallies and, for each kind of span,
// the buckets of the histogram and the sum of the spans in microseconds. All numbers are in one array, because they are
// always added, stored, and read together.
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

// Returns the sum of two numbers of a series. The sum is limited so that it does not overflow, because a counter must
// not become negative. About 300,000 spans of one year reach this limit.
std::int64_t sum_of_numbers(std::int64_t a, std::int64_t b) noexcept;
void note(SeriesNumbers *numbers, const Happened &happened) noexcept;
void add_numbers(SeriesNumbers *to, const SeriesNumbers &more) noexcept;

}  // namespace jobq::core
