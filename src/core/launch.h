// Decides when the launcher starts a worker in which database. Pure: the launcher collects the facts.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

constexpr Micros kNever = INT64_MAX;

// What the launcher knows about a database.
struct DatabaseFacts {
    std::uint32_t database;
    Micros next_due;    // when its next round is due; kNever: nothing is due
    Micros not_before;  // earliest start, because failures back off and DROP DATABASE keeps workers out
    bool running;       // a worker runs there or has just been requested
};
static_assert(std::is_trivially_copyable_v<DatabaseFacts>, "lives in shared memory");

struct LaunchPlan {
    int start;       // index of the database in which to start a worker now; -1: none
    Micros wake_at;  // when to check again after that start; kNever: only after a notification
    bool starved;    // another database is due but all workers are busy, so lingering workers should leave
};
static_assert(std::is_trivially_copyable_v<LaunchPlan>, "may live where a longjmp skips destructors");

// Picks the database in which a worker could have been started the longest ago. No database starves if the caller sets
// `not_before` to the end of a database's last round, because a database that is always due then queues up after the
// others. Starts a worker `lead` before its round is due, so that it is connected in time. Plans one start; the caller
// marks the database as running and calls again.
LaunchPlan plan_launch(const DatabaseFacts *databases, int count, int running_workers, int max_workers, Micros now,
                       Micros lead) noexcept;

// Returns the delay before the next attempt after `failures` failures in a row: 0 after none, then 1 s, doubling up to
// the maximum.
constexpr Micros kLongestLaunchBackoff = 60 * kSecond;
Micros launch_backoff(int failures) noexcept;

// Returns how long to sleep until `wake_at`, limited to [min, max] whatever the clock does; `max` if `wake_at` is
// kNever.
Micros clamp_sleep(Micros now, Micros wake_at, Micros min, Micros max) noexcept;

}  // namespace jobq::core
