// Parses cron expressions into sets of seconds, minutes, hours, and days. An expression has five fields as in
// crontab(5), or six with the seconds first. It supports names, ranges, steps, lists, L for the last day of a month,
// nicknames, and @every with a span.
//
// If both the day of the month and the weekday are restricted, a day needs to match only one of them, as in Vixie cron.
// If one of the two fields begins with *, a day must match both.
#pragma once

#include "core/clock.h"

#include <cstdint>
#include <string_view>

namespace jobq::core {

struct Cron {
    std::uint64_t seconds;   // bit n: second n of a minute
    std::uint64_t minutes;   // bit n: minute n of an hour
    std::uint32_t hours;     // bit n: hour n of a day
    std::uint32_t days;      // bits 1 to 31: days of a month; bit 0: the last day of the month
    std::uint32_t months;    // bits 1 to 12
    std::uint32_t weekdays;  // bits 0 (Sunday) to 6
    bool needs_both_days;    // a day must match both day of month and weekday; if false, one of them is enough
    bool follows_clock;      // has *, -, or / in second, minute, or hour; see calendar_policy.h
    Micros every;            // interval of @every, at least one second; 0 if the expression uses the sets
};

enum class CronField : std::uint8_t { Expression, Second, Minute, Hour, DayOfMonth, Month, Weekday };

struct CronError {
    CronField field;
    int position;         // in bytes, starting at 1
    const char *problem;  // a sentence
};

constexpr int kMaxCronBytes = 1000;

// Parses an expression. Returns false and sets *error if the expression is invalid or never fires.
bool parse_cron(std::string_view text, Cron *cron, CronError *error) noexcept;

const char *field_name(CronField field) noexcept;

// A day of the proleptic Gregorian calendar.
struct Day {
    std::int64_t number;  // days since 1970-01-01
    int year, month, day;
    int weekday;  // 0 is Sunday
};
Day day_of(std::int64_t number) noexcept;
int days_in_month(std::int64_t year, int month) noexcept;

bool has_day(const Cron &cron, const Day &day) noexcept;
// Returns the first second of the day, at or after `from`, at which the expression fires, or -1 if there is none.
// `from` and the result are seconds since midnight.
int next_second_of_day(const Cron &cron, int from) noexcept;

}  // namespace jobq::core
