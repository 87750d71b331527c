// See timing_policy.h.
#include "schedules/timing_policy.h"

#include "core/clock.h"
#include "core/stable_hash.h"

#include <algorithm>

namespace jobq::core {

namespace {

Micros occurrence_after(const Timing &timing, Micros after) {
    if (timing.cron.every > 0) return next_every(timing.cron.every, timing.every_from, after);
    const std::int64_t second = next_run(timing.cron, timing.zone, unix_second_of(after));
    return second == kEndOfTime ? kNoMoment : micros_of(second);
}

// Computes the last run of @every with a division instead of a search.
Micros last_every_between(const Timing &timing, Micros after, Micros until) {
    const Micros bound = std::min(until, timing.ends_at);
    if (bound < timing.every_from) return kNoMoment;
    const Micros last = timing.every_from + (bound - timing.every_from) / timing.cron.every * timing.cron.every;
    return last > after && last >= timing.starts_at ? last : kNoMoment;
}

}  // namespace

Micros run_after(const Timing &timing, Micros after) noexcept {
    const Micros bounded = std::max(std::max(after, timing.starts_at - 1), kFirstMoment);
    if (bounded >= kLastMoment) return kNoMoment;
    const Micros run = occurrence_after(timing, bounded);
    return run > timing.ends_at || run > kLastMoment ? kNoMoment : run;
}

Micros last_run_between(const Timing &timing, Micros after, Micros until) noexcept {
    // Limits `until`, because no run is later than kLastMoment, and the subtractions below must not overflow.
    until = std::min(until, kLastMoment);
    if (timing.cron.every > 0) return last_every_between(timing, after, until);
    // Searches backward, doubling the step each time, until a run lies between `low` and `until`. Then finds the last
    // run by bisection.
    Micros low = until, high = until, found = kNoMoment;
    for (Micros step = kSecond; found > until; step *= 2) {
        if (low <= after) return kNoMoment;
        high = low;
        low = until - after > step ? until - step : after;
        found = run_after(timing, low);
    }
    while (run_after(timing, found) <= until) {
        const Micros middle = found + (high - found) / 2;
        const Micros run = run_after(timing, middle);
        if (run <= until)
            found = run;
        else if (middle == found)
            break;
        else
            high = middle;
    }
    return found;
}

DueRuns due_runs(const Timing &timing, const FiringRules &rules, Micros due, Micros now, Micros *runs) noexcept {
    DueRuns result = {};
    std::int64_t total = 1;
    result.next = run_after(timing, due);
    while (result.next <= now && total < kMostCounted) {
        total++;
        result.next = run_after(timing, result.next);
    }
    if (result.next <= now) result.next = run_after(timing, now);

    const Micros longest = rules.missed == Missed::Skip && rules.deadline == kNoMoment ? kSkipDeadline : rules.deadline;
    const Micros oldest = longest == kNoMoment ? -kNoMoment : saturating_subtract(now, longest);
    const int wanted = rules.missed == Missed::All ? std::min(rules.most, kMaxMissed) : 1;
    result.last_left = kNoMoment;
    for (Micros until = now;;) {
        const Micros found = last_run_between(timing, due, until);
        // `due` counts as a run even if the search does not find it, because the calendar might have changed since
        // `due` was computed.
        const Micros run = found == kNoMoment ? due : found;
        const bool late = run < oldest;
        if (late || result.count == wanted) {
            result.last_left = run;
            result.too_late = late;
            result.left = std::max<std::int64_t>(total - result.count, 1);
            break;
        }
        runs[result.count++] = run;
        if (run == due) break;
        until = run - 1;
    }
    std::reverse(runs, runs + result.count);
    return result;
}

Micros resume_after(Micros now, Micros last_run) noexcept {
    return last_run > now && saturating_subtract(last_run, now) <= kDay ? last_run : now;
}

Micros jitter_of(std::string_view schedule, Micros run, Micros jitter) noexcept {
    if (jitter <= 0) return 0;
    StableHash hash;
    hash.add_part(schedule);
    hash.add_number(static_cast<std::uint64_t>(run), 8);
    return static_cast<Micros>(static_cast<std::uint64_t>(hash.value()) % static_cast<std::uint64_t>(jitter));
}

Micros firing_backoff(int failures) noexcept {
    constexpr Micros longest = 5 * kMinute;
    const int doublings = std::clamp(failures - 1, 0, 16);
    return std::min(kSecond << doublings, longest);
}

}  // namespace jobq::core
