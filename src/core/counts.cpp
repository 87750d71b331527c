// See counts.h.
#include "core/counts.h"

#include "core/wide_xid.h"

#include <algorithm>

namespace jobq::core {

namespace {

constexpr int kRestUnknown = 20;
constexpr int kRestKnown = 100;
constexpr Micros kShortRecount = 10000;

Micros cost_of(Micros begun, Micros ended) noexcept { return std::clamp<Micros>(ended - begun, 0, kHour); }

}  // namespace

void add_counts(Counts *to, const Counts &more) noexcept {
    for (int i = 0; i < kJobStatusCount; i++) to->jobs[i] += more.jobs[i];
    for (int i = 0; i < kEventCount; i++) to->events[i] += more.events[i];
}

bool contains(const Seen &seen, std::uint64_t xid) noexcept {
    if (xid >= seen.limit) return false;
    for (int i = 0; i < seen.running_count; i++)
        if (widen_xid(seen.running[i], seen.limit) == xid) return false;
    return true;
}

Micros next_recount(bool known, Micros begun, Micros ended, Micros interval) noexcept {
    if (ended == 0) return 0;
    const Micros cost = cost_of(begun, ended);
    return saturating_add(ended, known ? std::max(interval, cost * kRestKnown) : cost * kRestUnknown);
}

Micros next_recount_by_hand(Micros begun, Micros ended) noexcept {
    return cost_of(begun, ended) <= kShortRecount ? 0 : next_recount(true, begun, ended, 0);
}

bool sample_due(Micros last, Micros now) noexcept {
    // If the last sample is in the future, the clock was set back after the sample was taken. In this case, another
    // sample is due.
    return now - last >= kSampleDistance || last > now + kSecond;
}

void rates(const Sample *samples, int count, const std::int64_t *totals, Micros since, Micros now,
           double *per_second) noexcept {
    const Micros begin = now - kRateSpan;
    const Sample *before = nullptr;  // the latest sample before the span
    const Sample *inside = nullptr;  // the earliest sample in the span
    for (const Sample *sample = samples; sample != samples + count; sample++) {
        if (sample->at == 0 || sample->at > now) continue;
        if (sample->at <= begin) {
            if (before == nullptr || sample->at > before->at) before = sample;
        } else if (inside == nullptr || sample->at < inside->at) {
            inside = sample;
        }
    }
    // Samples are taken only while events happen, and then at short intervals. So if the latest sample before the span
    // is much older than the beginning of the span, no events happened between this sample and the beginning of the
    // span.
    const bool steady = before != nullptr && before->at >= begin - 2 * kSampleDistance;
    const Sample *base = steady ? before : inside;
    Micros span = kRateSpan;
    if (base != nullptr) {
        span = now - base->at;
        if (!steady) span = std::max(span, std::min(kRateSpan, std::max(now - since, kSecond)));
    }
    for (int i = 0; i < kEventCount; i++)
        per_second[i] = base == nullptr ? 0
                                        : static_cast<double>(totals[i] - base->events[i]) /
                                              (static_cast<double>(span) / static_cast<double>(kSecond));
}

}  // namespace jobq::core
