// Computes which runs of a schedule are due and which of them are fired. Times are microseconds since 2000, as in the
// server. Every search is bounded for any expression and any number of missed runs.
#pragma once

#include "schedules/calendar_policy.h"

#include <cstdint>
#include <string_view>

namespace jobq::core {

// What happens to runs that were not fired on time, and to a run while the last job is unfinished. The names are those
// that jobq_schedule documents.
enum class Missed : std::uint8_t { Once, All, Skip };
enum class Overlap : std::uint8_t { Allow, Skip, Replace };
constexpr std::string_view kMissedNames[] = {"once", "all", "skip"};
constexpr std::string_view kOverlapNames[] = {"allow", "skip", "replace"};

constexpr int kMaxMissed = 1000;
constexpr Micros kSkipDeadline = kMinute;  // deadline of 'skip' if none is given
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
    Micros every_from;  // @every counts from here
    Micros starts_at;   // no run is earlier; -kNoMoment if unbounded
    Micros ends_at;     // no run is later; kNoMoment if unbounded
};

// Returns the first run after `after`, or kNoMoment.
Micros run_after(const Timing &timing, Micros after) noexcept;
// Returns the last run after `after` that is not later than `until`, or kNoMoment.
Micros last_run_between(const Timing &timing, Micros after, Micros until) noexcept;

struct FiringRules {
    Missed missed;
    int most;         // maximum number of runs fired at once with 'all'
    Micros deadline;  // runs older than this are skipped; kNoMoment if none are
};

// The runs that are due at one time.
struct DueRuns {
    int count;          // runs to fire, which the array holds in order
    Micros next;        // the first run after now
    std::int64_t left;  // number of runs that are not fired, at most kMostCounted
    Micros last_left;   // the latest of the runs that are not fired
    bool too_late;      // the deadline is why that run is not fired
};
constexpr int kMostCounted = 1000;

// Returns the runs that are due. `due` is a known run that has not been fired and is not later than `now`. `runs` must
// have room for kMaxMissed elements.
DueRuns due_runs(const Timing &timing, const FiringRules &rules, Micros due, Micros now, Micros *runs) noexcept;

// Returns the time after which the next run is searched for: now, or the last run if that is later. After the clock was
// set back, a run that was already fired must not be fired again. If the last run is more than a day ahead, the clock
// was wrong before, and the search starts from now.
Micros resume_after(Micros now, Micros last_run) noexcept;

// Returns the delay between a run and the time when its job is due. The same run always has the same delay.
Micros jitter_of(std::string_view schedule, Micros run, Micros jitter) noexcept;

// Returns the delay before the next attempt to fire a schedule that has failed `failures` times in a row.
Micros firing_backoff(int failures) noexcept;

}  // namespace jobq::core
