// Time, as the server counts it: points and spans in microseconds, and sums of them that cannot overflow. Pure; used by
// everything.
#pragma once

#include <cstdint>

namespace jobq::core {

// Microseconds, as the server counts them: a point in time since 2000-01-01 UTC, or a span.
using Micros = std::int64_t;

constexpr Micros kMillisecond = 1000;
constexpr Micros kSecond = 1000 * kMillisecond;
constexpr Micros kMinute = 60 * kSecond;
constexpr Micros kHour = 60 * kMinute;
constexpr Micros kDay = 24 * kHour;
// The latest moment a job may be due: end of year 294246 less a margin that arithmetic may use up.
constexpr Micros kLatest = 9223371331200000000 - kDay;

// `a + b` and `a - b`, kept within [-kLatest, kLatest].
Micros saturating_add(Micros a, Micros b) noexcept;
Micros saturating_subtract(Micros a, Micros b) noexcept;

}  // namespace jobq::core
