// Clocks: how a step of the wall clock is recognised, and the grace that leases get afterwards.
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
Micros clock_step(const ClockReading &before, const ClockReading &after, Micros tolerance);

// When a lease runs out. `last_heartbeat + timeout`; but a lease claimed before `grace_start` (the server's start,
// promotion or last clock step) has at least one timeout from there, since its worker could not reach the server.
// A heartbeat dated after the caller's `now` was written before the clock stepped back: pass `grace_start` for it,
// else the job of a dead worker would wait until the clock has caught up.
Micros lease_deadline(Micros started_at, Micros last_heartbeat, Micros timeout, Micros grace_start);

}  // namespace jobq::core
