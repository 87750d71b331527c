// Cron expressions: what they mean, as sets of seconds, minutes, hours and days. Five fields as crontab(5) has them,
// six with seconds in front; names, ranges, steps, lists, L for the last day of a month, nicknames, and @every with a
// span.
//
// Where both the day of the month and the weekday are restricted one of them is enough, as in Vixie cron; where one of
// them begins with * both must hold.
#pragma once

#include "base/clock.h"

#include <cstdint>
#include <string_view>

namespace jobq::core {

struct Cron {
    std::uint64_t seconds;   // bit n: at second n of a minute
    std::uint64_t minutes;   // bit n: at minute n of an hour
    std::uint32_t hours;     // bit n: at hour n of a day
    std::uint32_t days;      // bits 1 to 31: days of a month; bit 0: its last day
    std::uint32_t months;    // bits 1 to 12
    std::uint32_t weekdays;  // bits 0 to 6, from Sunday
    bool needs_both_days;    // the day of the month and the weekday; else one of them
    bool follows_clock;      // written with *, - or / in second, minute or hour: see calendar_policy.h
    Micros every;            // of @every, at least a second; 0: the sets count
};

enum class CronField : std::uint8_t { Expression, Second, Minute, Hour, DayOfMonth, Month, Weekday };

struct CronError {
    CronField field;
    int position;         // in bytes, from 1
    const char *problem;  // "names no value from 0 to 59", say: goes on behind "field minute"
};

constexpr int kMaxCronBytes = 1000;

// False with an error where it is none, or none that ever fires.
bool parse_cron(std::string_view text, Cron *cron, CronError *error) noexcept;

const char *field_name(CronField field) noexcept;

// A day of the proleptic Gregorian calendar.
struct Day {
    std::int64_t number;  // since 1970-01-01
    int year, month, day;
    int weekday;  // from Sunday, 0
};
Day day_of(std::int64_t number) noexcept;
int days_in_month(std::int64_t year, int month) noexcept;

bool has_day(const Cron &cron, const Day &day) noexcept;
// The first second of a day at or behind `from` (seconds since midnight); -1: none.
int next_second_of_day(const Cron &cron, int from) noexcept;

}  // namespace jobq::core
