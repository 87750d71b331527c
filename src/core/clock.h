// Clocks: how a step of the wall clock is recognised.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

struct ClockReading {
    Micros wall;       // may step
    Micros monotonic;  // never steps
};
static_assert(std::is_trivially_copyable_v<ClockReading>, "lives in shared memory");

// How far the wall clock stepped between two readings: positive forward, negative backward, 0 when it only
// drifted by less than `tolerance`.
Micros clock_step(const ClockReading &before, const ClockReading &after, Micros tolerance) noexcept;

}  // namespace jobq::core
