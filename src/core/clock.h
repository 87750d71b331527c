// Detects steps of the wall clock, which happen, for example, when an operator sets the clock.
#pragma once

#include "core/span.h"

#include <type_traits>

namespace jobq::core {

// Earliest and latest times that jobq accepts: about the years 1 and 6000. Within these limits, the sum of a time and a
// timeout, and the difference between two times, fit the server's types.
constexpr Micros kFirstMoment = -732000 * kDay;
constexpr Micros kLastMoment = 1464000 * kDay;
constexpr Micros bounded_moment(Micros time) noexcept {
    return time < kFirstMoment ? kFirstMoment : time > kLastMoment ? kLastMoment : time;
}

struct ClockReading {
    Micros wall;       // can step
    Micros monotonic;  // never steps
};
static_assert(std::is_trivially_copyable_v<ClockReading>, "lives in shared memory");

// Returns the size of the step that the wall clock made between two readings. The result is positive if the clock
// stepped forward and negative if it stepped backward. A difference of less than `tolerance` is drift, not a step, so
// the result is then 0.
Micros clock_step(const ClockReading &before, const ClockReading &after, Micros tolerance) noexcept;

}  // namespace jobq::core
