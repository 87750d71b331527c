// The wall clock, watched for steps. Leases are judged by it, so a step must first grant them their grace.
// Who may call it: whatever decides about leases, and the launcher before it sleeps or starts anything.
#pragma once

#include "base/interval.h"
#include "compat/pg.h"

namespace jobq {

// Remembers how the clocks stand, and starts the grace: when the shared memory is made, and when the server begins to
// write.
void start_clock();

// For spans of time: steps of the wall clock must not prolong a sleep.
core::Micros monotonic_now();

// When the server began to write: its start, or its promotion if it was a standby. Nobody notes that moment, so it is
// the first time that somebody asks afterwards, the launcher at the latest. While it is a standby: now. Without
// preload: the start of the server.
TimestampTz writing_since();

// The time. When the wall clock stepped since anybody looked last, the grace starts here and every database
// is due, since what was planned was planned by another clock.
TimestampTz checked_now();

// The workers of all databases look again: what was planned was planned by other settings, or by another clock.
void everything_is_due(TimestampTz now);

// The moment from which leases have their grace: when the server began to write, or the last step of the clock. Without
// preload: the start of the server.
TimestampTz grace_start();

}  // namespace jobq
