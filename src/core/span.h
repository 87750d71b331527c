// Times and spans in microseconds, as in the server, and sums that cannot overflow.
#pragma once

#include <cstdint>

namespace jobq::core {

// A point in time, in microseconds since 2000-01-01 UTC, or a span in microseconds.
using Micros = std::int64_t;

constexpr Micros kMillisecond = 1000;
constexpr Micros kSecond = 1000 * kMillisecond;
constexpr Micros kMinute = 60 * kSecond;
constexpr Micros kHour = 60 * kMinute;
constexpr Micros kDay = 24 * kHour;
// Latest time at which a job may be due: the end of the server's timestamps (the end of the year 294276), minus a
// margin of one day for arithmetic.
constexpr Micros kLatest = 9223371331200000000 - kDay;

// A list of spans. Does not own its memory.
struct SpanList {
    const Micros *items = nullptr;
    int count = 0;
};

// These functions return `a + b` and `a - b`, limited to [-kLatest, kLatest].
Micros saturating_add(Micros a, Micros b) noexcept;
Micros saturating_subtract(Micros a, Micros b) noexcept;

}  // namespace jobq::core
