// Finds when a cron expression fires in a time zone. Times are seconds since 1970-01-01 00:00 UTC.
//
// Two rules apply when the clocks of the zone change. An expression with *, -, or / in the second, minute, or hour
// follows the clock. It fires whenever the local time matches: twice if the local time occurs twice, and not at all if
// the local time is skipped. Every other expression fires once for each matching local time: if a local time occurs
// twice, the expression fires the first time only; if local times are skipped, it fires once for all of them, at the
// end of the gap. Vixie cron makes the same distinction, but only for hours.
#pragma once

#include "schedules/cron_policy.h"

#include <cstdint>

namespace jobq::core {

// End of the range of times: no search returns a run at or after this second.
constexpr std::int64_t kEndOfTime = 4'000'000'000'000;  // about the year 128000
// How far ahead a search looks for a run: about 60 years. This is enough for every schedule that ever runs, because
// February 29 falls on any given weekday at least once in 40 years.
constexpr std::int64_t kLongestWait = std::int64_t{60} * 366 * 86400;

// A span of time in which a zone has a constant offset from UTC.
struct ZoneSpan {
    std::int64_t end;  // the first second after the span; kEndOfTime if the offset never changes again
    std::int32_t offset;
};
struct Zone {
    const void *data;
    ZoneSpan (*span_at)(const void *data, std::int64_t second);
};

// Returns the first run after `after`, or kEndOfTime if no run falls within kLongestWait. Does not support @every.
std::int64_t next_run(const Cron &cron, const Zone &zone, std::int64_t after) noexcept;

// Returns the first run of an @every expression after `after`. The runs are at `start` plus multiples of `every`.
Micros next_every(Micros every, Micros start, Micros after) noexcept;

}  // namespace jobq::core
