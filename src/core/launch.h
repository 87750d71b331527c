// Decides when the launcher starts a worker in which database. Pure: the launcher collects the facts.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

constexpr Micros kNever = INT64_MAX;

// What the launcher knows of one database.
struct DatabaseFacts {
    std::uint32_t database;
    Micros next_due;    // when its next round is due; kNever: nothing is due
    Micros not_before;  // no start before this (failures back off; DROP DATABASE asked us to keep out)
    bool running;       // a worker already runs there or has just been requested
};
static_assert(std::is_trivially_copyable_v<DatabaseFacts>, "lives in shared memory");

struct LaunchPlan {
    int start;       // index of the database in which to start a worker now; -1: none
    Micros wake_at;  // when to look again after that start; kNever: only after a notification
    bool starved;    // something else is due but every worker is busy: lingering workers should leave
};
static_assert(std::is_trivially_copyable_v<LaunchPlan>, "may live where a longjmp skips destructors");

// Picks the database that could have been started the longest ago, so that nobody starves, provided that the caller
// raises `not_before` to the end of a database's last round: a database that is always overdue then queues up behind
// the others. A worker is started `lead` before its round is due, so that it is connected in time.
// One start at a time: the caller marks it running and asks again.
LaunchPlan plan_launch(const DatabaseFacts *databases, int count, int running_workers, int max_workers, Micros now,
                       Micros lead) noexcept;

// Delay before trying a database again after `failures` failures in a row: 1 s doubling to the longest; 0 after none.
constexpr Micros kLongestLaunchBackoff = 60 * kSecond;
Micros launch_backoff(int failures) noexcept;

// How long to sleep until `wake_at`, clamped to [min, max] whatever the clock did; `max` when that is kNever.
Micros clamp_sleep(Micros now, Micros wake_at, Micros min, Micros max) noexcept;

}  // namespace jobq::core
