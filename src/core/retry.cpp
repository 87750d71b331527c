// See retry.h.
#include "core/retry.h"

#include <algorithm>

namespace jobq::core {

namespace {

// Returns base * 2^(attempt-1), but at most `max`. Returns 0 if `base` or `max` is not positive.
Micros doubled(Micros base, Micros max, int attempt) {
    if (base <= 0 || max <= 0) return 0;
    Micros delay = base;
    // The loop ends after at most 63 iterations even if `attempt` is larger, because the delay doubles until it exceeds
    // `max`.
    for (int i = 1; i < attempt && delay < max; i++) {
        if (delay > max / 2) return max;
        delay *= 2;
    }
    return delay < max ? delay : max;
}

// Returns the delay in the list, which is not empty.
Micros listed(const SpanList &delays, int attempt) {
    const Micros delay = delays.items[std::clamp(attempt, 1, delays.count) - 1];
    return std::max<Micros>(delay, 0);
}

// Returns floor(range * random / 2^32) without using a wider integer type.
std::uint64_t scale(std::uint64_t range, std::uint32_t random) {
    return (range >> 32) * random + (((range & UINT32_MAX) * random) >> 32);
}

// Value that means "no earlier sign of life". saturating_add() never returns this value.
constexpr Micros kNoReach = INT64_MIN;

}  // namespace

int next_attempt(int attempts) noexcept {
    if (attempts < 0) return 1;
    return attempts < kMaxAttempts ? attempts + 1 : kMaxAttempts;
}

Micros backoff(const RetryPolicy &policy, int attempt, std::uint32_t random) noexcept {
    const Micros delay =
        policy.delays.count > 0 ? listed(policy.delays, attempt) : doubled(policy.base, policy.max, attempt);
    const Micros spread = delay / 10;
    const auto choices = static_cast<std::uint64_t>(2 * spread) + 1;
    return saturating_add(delay - spread, static_cast<Micros>(scale(choices, random)));
}

JobStatus after_failure(int attempts, int max_attempts, bool wants_retry, bool cancel_requested) noexcept {
    if (cancel_requested) return JobStatus::Cancelled;
    return wants_retry && attempts < max_attempts ? JobStatus::Scheduled : JobStatus::Failed;
}

JobStatus after_loss(int attempts, int max_attempts, int lost_attempts, int max_lost, bool in_company,
                     bool cancel_requested) noexcept {
    if (cancel_requested) return JobStatus::Cancelled;
    return attempts < max_attempts && (in_company || lost_attempts < max_lost) ? JobStatus::Pending : JobStatus::Failed;
}

bool earlier_sign(const LastSign &a, const LastSign &b) noexcept {
    return a.worker != b.worker ? a.worker < b.worker : a.at < b.at;
}

void find_company(const LastSign *signs, int count, bool *in_company) noexcept {
    // Latest time at which a sign of life counts as simultaneous with an earlier sign from the same worker: an earlier
    // sign for any job (`any`), or an earlier sign for a lost job (`lost`).
    Micros any = kNoReach, lost = kNoReach;
    for (int i = 0; i < count; i++) {
        const LastSign &sign = signs[i];
        if (i == 0 || signs[i - 1].worker != sign.worker) any = lost = kNoReach;
        const Micros earlier = sign.lost ? any : lost;
        in_company[i] = earlier != kNoReach && sign.at <= earlier;
        const Micros reach = saturating_add(sign.at, sign.timeout / 2);
        if (reach > any) any = reach;
        if (sign.lost && reach > lost) lost = reach;
    }
    // The next later sign of life from the same worker for any job (`next`), and the next later sign for a lost job
    // (`next_lost`).
    const LastSign *next = nullptr, *next_lost = nullptr;
    for (int i = count - 1; i >= 0; i--) {
        const LastSign &sign = signs[i];
        if (next != nullptr && next->worker != sign.worker) next = next_lost = nullptr;
        const LastSign *other = sign.lost ? next : next_lost;
        if (other != nullptr && other->at <= saturating_add(sign.at, sign.timeout / 2)) in_company[i] = true;
        next = &sign;
        if (sign.lost) next_lost = &sign;
    }
}

JobStatus waiting_status(Micros run_at, Micros now) noexcept {
    return run_at <= now ? JobStatus::Pending : JobStatus::Scheduled;
}

Micros paced(Micros first, std::int64_t n, double per_second) noexcept {
    if (n <= 0 || !(per_second > 0)) return first;
    const double offset = static_cast<double>(n) * static_cast<double>(kSecond) / per_second;
    // Checks the range before the conversion, because converting a double that is too large is undefined.
    if (!(offset < static_cast<double>(kLatest))) return kLatest;
    return saturating_add(first, static_cast<Micros>(offset));
}

}  // namespace jobq::core
