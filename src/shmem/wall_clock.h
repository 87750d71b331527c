// The wall clock, watched for steps. Leases expire by this clock, so a step must first give them their grace.
// Only code that decides about leases may call this, and the launcher before it sleeps or starts a process.
#pragma once

#include "compat/pg.h"
#include "core/interval.h"

namespace jobq {

// Stores the difference of the clocks and starts the grace, when the shared memory is created and when the server
// begins to write.
void start_clock();

// Returns the monotonic time, for spans of time, because a step of the wall clock must not prolong a sleep.
core::Micros monotonic_now();

// Returns when the server began to write: its start, or its promotion if it was a standby. The promotion itself is not
// recorded, so this is the first call afterwards, which the launcher makes if no other process does. Returns the
// current time on a standby, and the start of the server without preload.
TimestampTz writing_since();

// Returns the time. If the wall clock has stepped since the last check by any process, starts the grace and makes every
// database due, because the old plans used another clock.
TimestampTz checked_now();

// Makes every database due, because the old plans used other settings or another clock.
void everything_is_due(TimestampTz now);

// Returns the moment from which leases have their grace: when the server began to write, or the last step of the clock.
// Without preload: the start of the server.
TimestampTz grace_start();

}  // namespace jobq
