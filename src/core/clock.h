// Detects steps of the wall clock.
#pragma once

#include "core/span.h"

#include <type_traits>

namespace jobq::core {

// Earliest and latest time that jobq accepts (about the years 1 to 6000), so that the sum of a time and a timeout and
// the difference between two times fit the server's types.
constexpr Micros kFirstMoment = -732000 * kDay;
constexpr Micros kLastMoment = 1464000 * kDay;
constexpr Micros bounded_moment(Micros time) noexcept {
    return time < kFirstMoment ? kFirstMoment : time > kLastMoment ? kLastMoment : time;
}

struct ClockReading {
    Micros wall;       // may step
    Micros monotonic;  // never steps
};
static_assert(std::is_trivially_copyable_v<ClockReading>, "lives in shared memory");

// Returns how far the wall clock stepped between two readings: positive forward, negative backward, 0 if it only
// drifted by less than `tolerance`.
Micros clock_step(const ClockReading &before, const ClockReading &after, Micros tolerance) noexcept;

}  // namespace jobq::core
