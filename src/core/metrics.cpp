// See metrics.h.
#include "core/metrics.h"

#include <algorithm>

namespace jobq::core {

namespace {

// Returns how the attempt ended. `after` is the job after the end of the attempt.
Tally end_of_attempt(const Life &after) noexcept {
    if (after.status == JobStatus::Completed) return Tally::AttemptCompleted;
    if (!after.cause) return Tally::AttemptWithdrawn;
    if (after.cause->kind == EventKind::Lost) return Tally::AttemptLost;
    if (after.status == JobStatus::Cancelled) return Tally::AttemptWithdrawn;
    switch (after.cause->kind) {
        case EventKind::Failed:
        case EventKind::Overran:
            return Tally::AttemptFailed;
        case EventKind::Released:
        case EventKind::Waited:
            return Tally::AttemptReleased;
        default:
            return Tally::AttemptWithdrawn;
    }
}

Tally end_of_job(const Life &after) noexcept {
    if (after.status == JobStatus::Completed) return Tally::Completed;
    if (after.status == JobStatus::Failed) return Tally::Failed;
    if (after.cause && after.cause->kind == EventKind::Expired) return Tally::Expired;
    return after.cause && after.cause->kind == EventKind::Dropped ? Tally::Dropped : Tally::Cancelled;
}

// Returns the time between `begin` and `end`. The result is at least 0, because the clock might have been set back, and
// at most one year, because run_at can be far in the past.
Micros span_between(Micros begin, Micros end) noexcept {
    return std::clamp<Micros>(saturating_subtract(end, begin), 0, 365 * kDay);
}

}  // namespace

Happened what_happened(const Life &before, const Life &after) noexcept {
    Happened happened = {};
    const bool ran = before.status == JobStatus::Processing, runs = after.status == JobStatus::Processing;
    if (ran && !runs) {
        happened.tallies |= bit_of(end_of_attempt(after));
        // The running time of a lost attempt is unknown.
        if (after.cause && after.cause->kind != EventKind::Lost && before.started_at)
            happened.ran = span_between(*before.started_at, after.cause->at);
    }
    if (!ran && runs) {
        happened.tallies |= bit_of(Tally::Claimed);
        if (after.cause && after.cause->kind == EventKind::Claimed)
            happened.waited = span_between(before.run_at, after.cause->at);
    }
    if (after.status != before.status && is_finished(after.status)) happened.tallies |= bit_of(end_of_job(after));
    if (is_finished(before.status) && !is_finished(after.status)) happened.tallies |= bit_of(Tally::Retried);
    return happened;
}

Happened what_happened_to_new(const Life &job) noexcept {
    const bool runs = job.status == JobStatus::Processing;
    return {bit_of(Tally::Enqueued) | (runs ? bit_of(Tally::Claimed) : 0), {}, {}};
}

Happened what_happened_to_gone(JobStatus before) noexcept {
    const bool ran = before == JobStatus::Processing;
    return {bit_of(Tally::Deleted) | (ran ? bit_of(Tally::AttemptWithdrawn) : 0), {}, {}};
}

int bucket_of(Micros span) noexcept {
    int bucket = 0;
    while (bucket < kBounds && bound_of(bucket) < span) bucket++;
    return bucket;
}

std::int64_t sum_of_numbers(std::int64_t a, std::int64_t b) noexcept { return saturating_add(a, b); }

void note(SeriesNumbers *numbers, const Happened &happened) noexcept {
    for (Tallies left = happened.tallies; left != 0; left &= left - 1) numbers->values[__builtin_ctz(left)]++;
    const auto observe = [numbers](Span span, const OptInt64 &length) {
        if (!length) return;
        numbers->values[SeriesNumbers::of(span, bucket_of(*length))]++;
        std::int64_t *sum = &numbers->values[SeriesNumbers::sum_of(span)];
        *sum = sum_of_numbers(*sum, *length);
    };
    observe(Span::Wait, happened.waited);
    observe(Span::Run, happened.ran);
}

void add_numbers(SeriesNumbers *to, const SeriesNumbers &more) noexcept {
    for (int i = 0; i < SeriesNumbers::kCount; i++) to->values[i] = sum_of_numbers(to->values[i], more.values[i]);
}

}  // namespace jobq::core
