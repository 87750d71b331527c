// Reads the wall clock and detects its steps. Leases expire by this clock, so all leases get a grace period after a
// step. Only code that decides whether a lease is valid, and the launcher before it sleeps or starts a process, may use
// this clock.
#pragma once

#include "compat/pg.h"
#include "core/interval.h"

namespace jobq {

// Stores the difference between the wall clock and the monotonic clock and starts the grace period. Called when the
// shared memory is created and when the server begins to write.
void start_clock();

// Returns the time of the monotonic clock. Use this clock to measure durations, such as the length of a sleep, because
// a step of the wall clock does not affect this clock.
core::Micros monotonic_now();

// Returns the time at which the server began to write: its start or, if it was a standby, its promotion. The server
// does not record the time of a promotion, so the time of the first call after the promotion is used. The launcher
// makes this call if no other process does. On a standby, returns the current time. If the library is not preloaded,
// returns the time at which the server started.
TimestampTz writing_since();

// Returns the current time. If the wall clock has stepped since the last check by any process, starts the grace period
// and makes every database due, because deadlines were planned with the old clock.
TimestampTz checked_now();

// Makes a round due in every database. Called when the next rounds were planned with outdated settings or before the
// clock stepped.
void everything_is_due(TimestampTz now);

// Returns the time at which the current grace period of the leases began. This is the time at which the server began to
// write, or the time of the last step of the clock. If the library is not preloaded, returns the time at which the
// server started.
TimestampTz grace_start();

}  // namespace jobq
