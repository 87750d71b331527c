// Reads the wall clock and detects steps of it. Leases expire by this clock, so all leases get a grace period after a
// step. Only code that decides about leases, and the launcher before it sleeps or starts a process, may use this clock.
#pragma once

#include "compat/pg.h"
#include "core/interval.h"

namespace jobq {

// Stores the difference between the wall clock and the monotonic clock and starts the grace period. Called when the
// shared memory is created and when the server begins to write.
void start_clock();

// Returns the time of the monotonic clock. Use it to measure spans such as a sleep, because a step of the wall clock
// must not prolong them.
core::Micros monotonic_now();

// Returns when the server began to write: its start, or its promotion if it was a standby. The server does not record
// the time of a promotion, so this is the time of the first call after it, which the launcher makes if no other process
// does. Returns the current time on a standby, and the start of the server without preload.
TimestampTz writing_since();

// Returns the current time. If the wall clock has stepped since the last check by any process, starts the grace period
// and makes every database due, because deadlines were planned with the old clock.
TimestampTz checked_now();

// Makes a round due in every database, because the next rounds were planned with old settings or before the clock
// stepped.
void everything_is_due(TimestampTz now);

// Returns the time at which the current grace period of the leases began: when the server began to write, or the last
// step of the clock. Without preload, returns the start of the server.
TimestampTz grace_start();

}  // namespace jobq
