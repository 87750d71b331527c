// When a cron expression fires in a time zone. Times are seconds since 1970-01-01 00:00 UTC.
//
// Where the clocks of the zone are changed: an expression that follows the clock (with *, - or / in second, minute or
// hour) fires whenever the local time is one of its times, twice in an hour that comes twice, and not at times that are
// left out. Any other fires once for each of its local times: what is left out at the end of the gap, all of it
// together, and what comes twice the first time only. The same distinction as in Vixie cron, whose rule is for hours.
#pragma once

#include "schedules/cron_policy.h"

#include <cstdint>

namespace jobq::core {

// No second of this or a later one is looked at.
constexpr std::int64_t kEndOfTime = 4'000'000'000'000;  // about the year 128000
// So far ahead a run is looked for: 29 February falls on a given weekday again within 40 years.
constexpr std::int64_t kLongestWait = std::int64_t{60} * 366 * 86400;

// A span of time in which a zone is so many seconds ahead of UTC.
struct ZoneSpan {
    std::int64_t end;  // the first second behind it; kEndOfTime: there is no later one
    std::int32_t offset;
};
struct Zone {
    const void *data;
    ZoneSpan (*span_at)(const void *data, std::int64_t second);
};

// The first run behind `after`; kEndOfTime: none within kLongestWait. Not for @every.
std::int64_t next_run(const Cron &cron, const Zone &zone, std::int64_t after) noexcept;

// The first run of @every behind `after`, counted from `start`.
Micros next_every(Micros every, Micros start, Micros after) noexcept;

}  // namespace jobq::core
