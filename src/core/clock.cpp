// Steps of the wall clock and the deadlines of leases: see clock.h.
#include "core/clock.h"

namespace jobq::core {

Micros clock_step(const ClockReading &before, const ClockReading &after, Micros tolerance) {
    const Micros wall = saturating_subtract(after.wall, before.wall);
    const Micros monotonic = saturating_subtract(after.monotonic, before.monotonic);
    const Micros step = saturating_subtract(wall, monotonic);
    return (step < 0 ? -step : step) < tolerance ? 0 : step;
}

Micros lease_deadline(Micros started_at, Micros last_heartbeat, Micros timeout, Micros grace_start) {
    const Micros deadline = saturating_add(last_heartbeat, timeout);
    if (started_at >= grace_start) return deadline;
    // A heartbeat after the grace began is worth more than the grace.
    const Micros graced = saturating_add(grace_start, timeout);
    return deadline > graced ? deadline : graced;
}

}  // namespace jobq::core
