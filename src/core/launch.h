// Decides in which database the launcher starts the next background worker, and when. Pure: the launcher collects the
// facts.
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

// Picks the database that has been ready for a worker for the longest time. The caller must set `not_before` of a
// database to the end of its last round, so that no database starves: a database that always has work due then gets its
// next worker after the others. Starts a worker `lead` microseconds before its round is due, so that the worker is
// connected in time. Plans only one start; the caller marks the database as running and calls the function again.
LaunchPlan plan_launch(const DatabaseFacts *databases, int count, int running_workers, int max_workers, Micros now,
                       Micros lead) noexcept;

// Returns the delay before the next attempt after `failures` failures in a row: 0 after none, then 1 s, doubling up to
// the maximum.
constexpr Micros kLongestLaunchBackoff = 60 * kSecond;
Micros launch_backoff(int failures) noexcept;

// Returns how long to sleep until `wake_at`, always limited to [min, max], even if the clock steps. Returns `max` if
// `wake_at` is kNever.
Micros clamp_sleep(Micros now, Micros wake_at, Micros min, Micros max) noexcept;

}  // namespace jobq::core
