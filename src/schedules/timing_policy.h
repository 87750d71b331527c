// Computes which runs of a schedule are due and which of them are fired. Times are microseconds since 2000, as in the
// server. Every search is bounded for any expression and any number of missed runs.
#pragma once

#include "schedules/calendar_policy.h"

#include <cstdint>
#include <string_view>

namespace jobq::core {

// Missed says what happens to runs that were not fired on time. Overlap says what happens to a run if the job of the
// previous run is unfinished. The names are the values that jobq_schedule accepts.
enum class Missed : std::uint8_t { Once, All, Skip };
enum class Overlap : std::uint8_t { Allow, Skip, Replace };
constexpr std::string_view kMissedNames[] = {"once", "all", "skip"};
constexpr std::string_view kOverlapNames[] = {"allow", "skip", "replace"};

constexpr int kMaxMissed = 1000;
constexpr Micros kSkipDeadline = kMinute;  // deadline of missed => 'skip' if none is given
constexpr Micros kNoMoment = kLatest + 1;  // no run, or no bound

constexpr Micros micros_of(std::int64_t unix_second) noexcept {
    constexpr std::int64_t epoch = 946684800;  // 2000-01-01
    return (unix_second - epoch) * kSecond;
}
constexpr std::int64_t unix_second_of(Micros time) noexcept {
    const std::int64_t seconds = time >= 0 ? time / kSecond : (time - kSecond + 1) / kSecond;
    return seconds + micros_of(0) / -kSecond;
}

// The times of a schedule.
struct Timing {
    Cron cron;
    Zone zone;
    Micros every_from;  // the runs of @every are counted from this time
    Micros starts_at;   // no run is earlier; -kNoMoment if unbounded
    Micros ends_at;     // no run is later; kNoMoment if unbounded
};

// Returns the first run after `after`, or kNoMoment if there is none.
Micros run_after(const Timing &timing, Micros after) noexcept;
// Returns the last run that is after `after` and not later than `until`, or kNoMoment if there is none.
Micros last_run_between(const Timing &timing, Micros after, Micros until) noexcept;

struct FiringRules {
    Missed missed;
    int most;         // maximum number of runs fired at once with missed => 'all'
    Micros deadline;  // runs that are late by more than this are skipped; kNoMoment: none
};

// The result of due_runs(), which describes the runs that are due at a given time.
struct DueRuns {
    int count;          // number of runs to fire, which are in the array in order
    Micros next;        // the first run after now
    std::int64_t left;  // number of runs that are not fired, at most kMostCounted
    Micros last_left;   // the latest of the runs that are not fired
    bool too_late;      // last_left is not fired because of the deadline
};
constexpr int kMostCounted = 1000;

// Returns the runs that are due. `due` is a known run that has not been fired and is not later than `now`. `runs` must
// have room for kMaxMissed elements.
DueRuns due_runs(const Timing &timing, const FiringRules &rules, Micros due, Micros now, Micros *runs) noexcept;

// Returns the time from which the next run is searched for: now, or the last run if that is later, so that a run that
// was already fired is not fired again after the clock was set back. If the last run is more than a day ahead, the
// clock must have been wrong at that time, and the search starts from now.
Micros resume_after(Micros now, Micros last_run) noexcept;

// Returns the delay between a run and the time when its job is due. The same run always has the same delay.
Micros jitter_of(std::string_view schedule, Micros run, Micros jitter) noexcept;

// Returns the delay before the next attempt to fire a schedule after `failures` consecutive failures.
Micros firing_backoff(int failures) noexcept;

}  // namespace jobq::core
