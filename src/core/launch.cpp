// See launch.h.
#include "core/launch.h"

#include <algorithm>

namespace jobq::core {

namespace {

// Returns the earliest time at which a worker is allowed to start in the database, or kNever.
Micros startable_at(const DatabaseFacts &facts, Micros lead) {
    if (facts.running || facts.next_due == kNever || facts.not_before == kNever) return kNever;
    return std::max(saturating_subtract(facts.next_due, lead), facts.not_before);
}

}  // namespace

LaunchPlan plan_launch(const DatabaseFacts *databases, int count, int running_workers, int max_workers, Micros now,
                       Micros lead) noexcept {
    const Micros early = std::max<Micros>(lead, 0);
    int oldest = -1;
    int waiting = 0;
    Micros oldest_since = kNever;
    Micros next_future = kNever;
    for (int i = 0; i < count; i++) {
        const Micros at = startable_at(databases[i], early);
        if (at == kNever) continue;
        if (at > now) {
            next_future = std::min(next_future, at);
            continue;
        }
        waiting++;
        if (at < oldest_since) {
            oldest_since = at;
            oldest = i;
        }
    }

    const bool can_start = oldest >= 0 && running_workers < max_workers;
    const int left_waiting = can_start ? waiting - 1 : waiting;
    const bool full = can_start ? running_workers >= max_workers - 1 : running_workers >= max_workers;

    LaunchPlan plan;
    plan.start = can_start ? oldest : -1;
    // The launcher need not wake up for a database that waits for a worker to exit, because the exit notifies the
    // launcher.
    plan.wake_at = left_waiting > 0 && !full ? now : next_future;
    plan.starved = left_waiting > 0 && full;
    return plan;
}

Micros launch_backoff(int failures) noexcept {
    if (failures <= 0) return 0;
    Micros delay = kSecond;
    for (int i = 1; i < failures && delay < kLongestLaunchBackoff; i++) delay *= 2;
    return std::min(delay, kLongestLaunchBackoff);
}

Micros clamp_sleep(Micros now, Micros wake_at, Micros min, Micros max) noexcept {
    const Micros sleep = wake_at == kNever ? max : saturating_subtract(wake_at, now);
    return std::max(std::min(sleep, max), min);
}

}  // namespace jobq::core
