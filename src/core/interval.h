// Converts intervals from the server's three parts (months, days, and microseconds) to microseconds. A month counts as
// 30 days, as in the server's comparison of intervals.
#pragma once

#include "core/span.h"

namespace jobq::core {

// Returns the span in microseconds, limited to the range from -kLatest to kLatest.
constexpr Micros span_micros(std::int32_t months, std::int32_t days, std::int64_t micros) noexcept {
    const __int128 total =
        (static_cast<__int128>(months) * 30 + days) * static_cast<__int128>(kDay) + static_cast<__int128>(micros);
    if (total > kLatest) return kLatest;
    if (total < -kLatest) return -kLatest;
    return static_cast<Micros>(total);
}

}  // namespace jobq::core
