// See span.h.
#include "core/span.h"

namespace jobq::core {

Micros saturating_add(Micros a, Micros b) noexcept {
    // The checks come before the sum, because signed overflow is undefined.
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
    // INT64_MIN cannot be negated.
    if (b == INT64_MIN) return saturating_add(saturating_add(a, INT64_MAX), 1);
    return saturating_add(a, -b);
}

}  // namespace jobq::core
