// Which runs of a schedule are due, and which of them are fired. Times are the server's, in microseconds since 2000.
// Every search is bounded, whatever the expression and however long nobody looked.
#pragma once

#include "schedules/calendar_policy.h"

#include <cstdint>
#include <string_view>

namespace jobq::core {

// What becomes of runs that nobody fired when they were due; what a run does while the last job is unfinished. By the
// names that jobq_schedule documents.
enum class Missed : std::uint8_t { Once, All, Skip };
enum class Overlap : std::uint8_t { Allow, Skip, Replace };
constexpr std::string_view kMissedNames[] = {"once", "all", "skip"};
constexpr std::string_view kOverlapNames[] = {"allow", "skip", "replace"};

constexpr int kMaxMissed = 1000;
constexpr Micros kSkipDeadline = kMinute;  // of 'skip' without a deadline
constexpr Micros kNoMoment = kLatest + 1;  // no run, or no bound

constexpr Micros micros_of(std::int64_t unix_second) noexcept {
    constexpr std::int64_t epoch = 946684800;  // 2000-01-01
    return (unix_second - epoch) * kSecond;
}
constexpr std::int64_t unix_second_of(Micros time) noexcept {
    const std::int64_t seconds = time >= 0 ? time / kSecond : (time - kSecond + 1) / kSecond;
    return seconds + micros_of(0) / -kSecond;
}

// When a schedule runs.
struct Timing {
    Cron cron;
    Zone zone;
    Micros every_from;  // @every counts from here
    Micros starts_at;   // no run is earlier; -kNoMoment: no bound
    Micros ends_at;     // no run is later; kNoMoment: no bound
};

// The first run behind `after`; kNoMoment: there is none.
Micros run_behind(const Timing &timing, Micros after) noexcept;
// The last run behind `after` that is not later than `until`; kNoMoment: there is none.
Micros last_run_between(const Timing &timing, Micros after, Micros until) noexcept;

struct FiringRules {
    Missed missed;
    int most;         // of 'all': so many are fired at a time
    Micros deadline;  // a run that is later is dropped; kNoMoment: none is
};

// What is to be done at a moment.
struct DueRuns {
    int count;          // that are fired: the array has them in their order
    Micros next;        // the first one behind now
    std::int64_t left;  // those that are not fired, kMostCounted at most
    Micros last_left;   // the latest of these
    bool too_late;      // it is for the deadline that this one is left
};
constexpr int kMostCounted = 1000;

// `due` is a run that was found before and has not been fired; it is not later than `now`. `runs` has room for
// kMaxMissed.
DueRuns due_runs(const Timing &timing, const FiringRules &rules, Micros due, Micros now, Micros *runs) noexcept;

// Behind which moment the next run is looked for: now, unless a run is known to have been fired that is still to come.
// The clock was set back; what it was fired for must not be fired again. One that was set back by more than a day was
// wrong before.
Micros resume_behind(Micros now, Micros last_run) noexcept;

// How much later than its occurrence a run's job is due: the same whoever asks.
Micros jitter_of(std::string_view schedule, Micros run, Micros jitter) noexcept;

// Until the next attempt of a schedule that could not be fired so many times in a row.
Micros firing_backoff(int failures) noexcept;

}  // namespace jobq::core
