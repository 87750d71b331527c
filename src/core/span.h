// Times and spans in microseconds, as in the server, and sums that cannot overflow. Pure: calls no server functions.
#pragma once

#include <cstdint>

namespace jobq::core {

// Microseconds: a point in time since 2000-01-01 UTC, or a span.
using Micros = std::int64_t;

constexpr Micros kMillisecond = 1000;
constexpr Micros kSecond = 1000 * kMillisecond;
constexpr Micros kMinute = 60 * kSecond;
constexpr Micros kHour = 60 * kMinute;
constexpr Micros kDay = 24 * kHour;
// Latest time at which a job may be due: the end of the year 294246, minus a margin for arithmetic.
constexpr Micros kLatest = 9223371331200000000 - kDay;

// Return `a + b` and `a - b`, limited to [-kLatest, kLatest].
Micros saturating_add(Micros a, Micros b) noexcept;
Micros saturating_subtract(Micros a, Micros b) noexcept;

}  // namespace jobq::core
