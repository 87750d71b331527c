// Decides in which database the launcher starts the next background worker, and when.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

constexpr Micros kNever = INT64_MAX;

// What the launcher knows about a database.
struct DatabaseFacts {
    std::uint32_t database;
    Micros next_due;    // when its next round is due; kNever: nothing is due
    Micros not_before;  // earliest time of a start, later after failures or while DROP DATABASE keeps workers out
    bool running;       // a worker runs there or has just been requested
};
static_assert(std::is_trivially_copyable_v<DatabaseFacts>, "lives in shared memory");

struct LaunchPlan {
    int start;       // index of the database in which to start a worker now; -1: none
    Micros wake_at;  // when to check again after that start; kNever: only after a notification
    bool starved;    // another database is due but all workers are busy, so lingering workers should leave
};
static_assert(std::is_trivially_copyable_v<LaunchPlan>, "may live where a longjmp skips destructors");

// Picks the database that has been ready for a worker for the longest time. After each round, the caller must set
// `not_before` of the database to the end of that round. As a result, a database in which work is always due gets its
// next worker only after the other databases, so no database starves. The plan starts at most one worker, `lead`
// microseconds before its round is due, so that the worker is connected in time. After the start, the caller marks the
// database as running and calls the function again.
LaunchPlan plan_launch(const DatabaseFacts *databases, int count, int running_workers, int max_workers, Micros now,
                       Micros lead) noexcept;

// Returns the delay before the next attempt to start a worker after `failures` consecutive failures. The delay is 0
// without failures, 1 s after the first failure, and doubles with each further failure up to kLongestLaunchBackoff.
constexpr Micros kLongestLaunchBackoff = 60 * kSecond;
Micros launch_backoff(int failures) noexcept;

// Returns how long to sleep: until `wake_at`, but at least `min` and at most `max`, even if the clock steps. Returns
// `max` if `wake_at` is kNever.
Micros clamp_sleep(Micros now, Micros wake_at, Micros min, Micros max) noexcept;

}  // namespace jobq::core
