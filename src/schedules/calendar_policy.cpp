// See calendar_policy.h.
#include "schedules/calendar_policy.h"

#include <algorithm>

namespace jobq::core {

namespace {

constexpr std::int64_t kSecondsOfDay = 86400;
// The search starts this number of seconds before the time `after`. No zone has ever been shifted by more than a day,
// so two days are enough to find every local time that occurs twice.
constexpr std::int64_t kLongestShift = 2 * kSecondsOfDay;
constexpr std::int64_t kNone = kEndOfTime;

std::int64_t day_number(std::int64_t second) {
    return second >= 0 ? second / kSecondsOfDay : (second - kSecondsOfDay + 1) / kSecondsOfDay;
}

// Returns the first local time in [from, end) at which the expression fires, or kNone.
std::int64_t first_local_time(const Cron &cron, std::int64_t from, std::int64_t end) {
    for (std::int64_t number = day_number(from); number * kSecondsOfDay < end; number++) {
        const Day day = day_of(number);
        if ((cron.months & (1U << day.month)) == 0) {
            number += days_in_month(day.year, day.month) - day.day;
            continue;
        }
        if (!has_day(cron, day)) continue;
        const std::int64_t midnight = number * kSecondsOfDay;
        const int second = next_second_of_day(cron, static_cast<int>(std::max<std::int64_t>(from - midnight, 0)));
        if (second >= 0) return midnight + second < end ? midnight + second : kNone;
    }
    return kNone;
}

}  // namespace

std::int64_t next_run(const Cron &cron, const Zone &zone, std::int64_t after) noexcept {
    const std::int64_t last = std::min(after + kLongestWait, kEndOfTime - 1);
    std::int64_t at = after - kLongestShift;
    // Local times before local_now have already occurred, so the expression does not fire at them again.
    std::int64_t local_now = 0;
    for (bool first = true; at <= last; first = false) {
        const ZoneSpan span = zone.span_at(zone.data, at);
        const std::int64_t begin = at + span.offset;
        const std::int64_t end = std::min(span.end, last + 1) + span.offset;
        const bool left_out = !first && !cron.follows_clock && begin > local_now;
        if (left_out && at > after && first_local_time(cron, local_now, begin) != kNone) return at;
        const bool again = !first && !cron.follows_clock && begin < local_now;
        const std::int64_t from = std::max(again ? local_now : begin, after + 1 + span.offset);
        const std::int64_t found = from < end ? first_local_time(cron, from, end) : kNone;
        if (found != kNone) return found - span.offset;
        local_now = first ? end : std::max(local_now, end);
        at = span.end;
    }
    return kNone;
}

Micros next_every(Micros every, Micros start, Micros after) noexcept {
    if (after < start) return start;
    return start + ((after - start) / every + 1) * every;
}

}  // namespace jobq::core
