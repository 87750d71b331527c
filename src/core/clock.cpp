// See clock.h.
#include "core/clock.h"

namespace jobq::core {

Micros clock_step(const ClockReading &before, const ClockReading &after, Micros tolerance) noexcept {
    const Micros wall = saturating_subtract(after.wall, before.wall);
    const Micros monotonic = saturating_subtract(after.monotonic, before.monotonic);
    const Micros step = saturating_subtract(wall, monotonic);
    return (step < 0 ? -step : step) < tolerance ? 0 : step;
}

}  // namespace jobq::core
