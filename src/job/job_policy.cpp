// See job_policy.h.
#include "job/job_policy.h"

#include <climits>

namespace jobq::core {

namespace {

constexpr int kLeaseBits = 53;

}  // namespace

std::int64_t lease_from_random(std::uint64_t random) noexcept {
    const auto lease = static_cast<std::int64_t>(random >> (64 - kLeaseBits));
    return lease == 0 ? 1 : lease;
}

Micros saturating_add(Micros a, Micros b) noexcept {
    // The tests come before the sum, since the overflow itself would be undefined.
    if (b >= 0) {
        if (a > kLatest - b) return kLatest;
        const Micros sum = a + b;
        return sum < -kLatest ? -kLatest : sum;
    }
    if (a < -kLatest - b) return -kLatest;
    const Micros sum = a + b;
    return sum > kLatest ? kLatest : sum;
}

Micros saturating_subtract(Micros a, Micros b) noexcept {
    // INT64_MIN has no negative.
    if (b == INT64_MIN) return saturating_add(saturating_add(a, INT64_MAX), 1);
    return saturating_add(a, -b);
}

int heartbeat_seconds(Micros timeout) noexcept {
    const Micros seconds = timeout / 3 / kSecond;
    if (seconds < 1) return 1;
    return seconds > INT_MAX ? INT_MAX : static_cast<int>(seconds);
}

}  // namespace jobq::core
