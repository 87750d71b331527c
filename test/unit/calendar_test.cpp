// Compares the calendar with a check of every minute of ten years, in zones of the system's time zone database.
#include "schedules/calendar_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

namespace jobq::core {
namespace {

constexpr std::int64_t kMinutes = 60;
constexpr std::int64_t kDays = 86400;

// Sets the time zone of the C library, from which the test gets offsets.
struct SystemZone {
    explicit SystemZone(const char *name) {
        setenv("TZ", name, 1);
        tzset();
    }
    static std::int64_t offset_at(std::int64_t second) {
        const std::time_t time = static_cast<std::time_t>(second);
        std::tm local = {};
        localtime_r(&time, &local);
        return local.tm_gmtoff;
    }
};

// Returns the spans with a constant offset between the first and the last second, found by bisection.
struct Spans {
    std::vector<std::int64_t> ends;
    std::vector<std::int32_t> offsets;
    std::int64_t begin;

    Spans(std::int64_t first, std::int64_t last) : begin(first) {
        for (std::int64_t at = first; at < last;) {
            const std::int64_t offset = SystemZone::offset_at(at);
            std::int64_t end = at;
            while (end < last && SystemZone::offset_at(end) == offset) end += 7 * kDays;
            if (end >= last) {
                end = kEndOfTime;
            } else {
                std::int64_t same = end - 7 * kDays;
                while (end - same > 1) {
                    const std::int64_t middle = (same + end) / 2;
                    (SystemZone::offset_at(middle) == offset ? same : end) = middle;
                }
            }
            ends.push_back(end);
            offsets.push_back(static_cast<std::int32_t>(offset));
            at = end;
        }
    }
    static ZoneSpan span_at(const void *data, std::int64_t second) {
        const auto *spans = static_cast<const Spans *>(data);
        const auto found = std::upper_bound(spans->ends.begin(), spans->ends.end(), second);
        const std::size_t i = std::min<std::size_t>(found - spans->ends.begin(), spans->ends.size() - 1);
        return {spans->ends[i], spans->offsets[i]};
    }
    Zone zone() const { return {this, span_at}; }
};

Cron parsed(const std::string &text) {
    Cron cron;
    CronError error = {};
    EXPECT_TRUE(parse_cron(text, &cron, &error)) << text << ": " << error.problem;
    return cron;
}

bool matches(const Cron &cron, std::int64_t local) {
    const std::int64_t day = local >= 0 ? local / kDays : (local - kDays + 1) / kDays;
    const auto second = static_cast<int>(local - day * kDays);
    return (cron.hours >> second / 3600 & 1) != 0 && (cron.minutes >> second / 60 % 60 & 1) != 0 &&
           (cron.seconds >> second % 60 & 1) != 0 && has_day(cron, day_of(day));
}

// Computes all runs in [first, last) in another way. If the expression follows the clock, these are the moments whose
// local time matches it. Otherwise, each matching local time counts once: at the first moment that has it, or the first
// moment after a gap.
std::vector<std::int64_t> runs_by_walk(const Cron &cron, const Spans &spans, std::int64_t first, std::int64_t last,
                                       std::int64_t step) {
    std::vector<std::int64_t> runs;
    std::int64_t latest_local = INT64_MIN;
    ZoneSpan span = Spans::span_at(&spans, first - 4 * kDays);
    for (std::int64_t at = first - 4 * kDays; at < last; at += step) {
        if (at >= span.end) span = Spans::span_at(&spans, at);
        const std::int64_t local = at + span.offset;
        bool runs_now = matches(cron, local);
        if (!cron.follows_clock) {
            if (latest_local != INT64_MIN && local <= latest_local) runs_now = false;
            if (latest_local != INT64_MIN)
                for (std::int64_t missing = latest_local + step; missing < local; missing += step)
                    runs_now = runs_now || matches(cron, missing);
            latest_local = std::max(latest_local, local);
        }
        if (runs_now && at >= first) runs.push_back(at);
    }
    return runs;
}

std::vector<std::int64_t> runs_by_calendar(const Cron &cron, const Spans &spans, std::int64_t first,
                                           std::int64_t last) {
    std::vector<std::int64_t> runs;
    for (std::int64_t at = next_run(cron, spans.zone(), first - 1); at < last; at = next_run(cron, spans.zone(), at))
        runs.push_back(at);
    return runs;
}

std::int64_t second_of(int year, int month, int day) {
    std::int64_t number = (year - 1970) * std::int64_t{365};
    while (day_of(number).year * 10000 + day_of(number).month * 100 + day_of(number).day <
           year * 10000 + month * 100 + day)
        number++;
    return number * kDays;
}

// Returns a field of an expression; rarely *, so that there are few runs.
std::string random_field(std::mt19937 *random, int lowest, int highest, int stars) {
    const auto value = [&] { return std::to_string(lowest + static_cast<int>((*random)() % (highest - lowest + 1))); };
    switch ((*random)() % (6 + stars)) {
        case 0:
            return value() + "," + value();
        case 1:
            return "*/" + std::to_string(2 + (*random)() % (highest / 2));
        case 2: {
            const int first = lowest + static_cast<int>((*random)() % (highest - lowest));
            return std::to_string(first) + "-" +
                   std::to_string(first + static_cast<int>((*random)() % (highest - first + 1)));
        }
        case 3:
        case 4:
        case 5:
            return value();
        default:
            return "*";
    }
}

TEST(Calendar, MatchesABruteForceSearchOfMinutes) {
    // Zones with shifts of an hour, of half an hour, and of a day; at midnight; southern; without shifts; with several
    // per year.
    const char *zones[] = {"UTC",
                           "Europe/Berlin",
                           "Europe/Dublin",
                           "Europe/London",
                           "America/New_York",
                           "America/Sao_Paulo",
                           "America/Asuncion",
                           "America/St_Johns",
                           "America/Havana",
                           "Africa/Casablanca",
                           "Africa/Cairo",
                           "Asia/Tehran",
                           "Asia/Gaza",
                           "Asia/Kolkata",
                           "Asia/Amman",
                           "Australia/Lord_Howe",
                           "Australia/Sydney",
                           "Pacific/Apia",
                           "Pacific/Chatham",
                           "Antarctica/Troll"};
    std::mt19937 random(13);
    const std::int64_t first = second_of(2009, 1, 1), last = second_of(2019, 1, 1);
    for (const char *name : zones) {
        const SystemZone system(name);
        const Spans spans(first - 30 * kDays, last + 30 * kDays);
        for (int round = 0; round < 2; round++) {
            // At night, when clocks are changed.
            const std::string hours = round == 0 ? random_field(&random, 0, 3, 0) : std::to_string(random() % 4) + ",2";
            const std::string text = random_field(&random, 0, 59, 0) + " " + hours + " " +
                                     random_field(&random, 1, 28, 12) + " " + random_field(&random, 1, 12, 12) + " " +
                                     random_field(&random, 0, 6, 12);
            const Cron cron = parsed(text);
            ASSERT_EQ(runs_by_calendar(cron, spans, first, last), runs_by_walk(cron, spans, first, last, kMinutes))
                << text << " in " << name;
        }
    }
}

TEST(Calendar, MatchesABruteForceSearchOfSeconds) {
    const SystemZone system("Europe/Berlin");
    const std::int64_t first = second_of(2024, 10, 26), last = second_of(2024, 10, 29);
    const Spans spans(first - 400 * kDays, last + 400 * kDays);
    for (const char *text : {"*/7 * * * * *", "59 59 2 * * *", "0 30 2,3 * * *", "5,10 1-20/3 2 27 10 *"}) {
        const Cron cron = parsed(text);
        EXPECT_EQ(runs_by_calendar(cron, spans, first, last), runs_by_walk(cron, spans, first, last, 1)) << text;
    }
}

class InBerlin : public testing::Test {
 protected:
    SystemZone system{"Europe/Berlin"};
    Spans spans{second_of(2023, 1, 1), second_of(2026, 1, 1)};
    std::string runs(const char *text, std::int64_t first, std::int64_t last) {
        std::string found;
        for (const std::int64_t at : runs_by_calendar(parsed(text), spans, first, last)) {
            const std::time_t time = static_cast<std::time_t>(at);
            std::tm local = {};
            char written[64];
            localtime_r(&time, &local);
            std::strftime(written, sizeof(written), "%H:%M%z", &local);
            found += std::string(found.empty() ? "" : " ") + written;
        }
        return found;
    }
};

TEST_F(InBerlin, ATimeInTheSpringGapRunsOnceAtItsEnd) {
    // On 31 March 2024, 02:00 is 03:00.
    const std::int64_t first = second_of(2024, 3, 31) - 3600, last = second_of(2024, 4, 1) - 7200;
    EXPECT_EQ(runs("30 2 * * *", first, last), "03:00+0200");
    EXPECT_EQ(runs("0,30 2 * * *", first, last), "03:00+0200");
    EXPECT_EQ(runs("30 2,3 * * *", first, last), "03:00+0200 03:30+0200");
    EXPECT_EQ(runs("0 2,3 * * *", first, last), "03:00+0200");
    EXPECT_EQ(runs("*/30 2 * * *", first, last), "");
    EXPECT_EQ(runs("0 1-3 * * *", first, last), "01:00+0100 03:00+0200");
}

TEST_F(InBerlin, ARepeatedTimeInAutumnRunsOnlyTheFirstTime) {
    // On 27 October 2024, 03:00 is 02:00 again.
    const std::int64_t first = second_of(2024, 10, 27) - 7200, last = second_of(2024, 10, 28) - 3600;
    EXPECT_EQ(runs("30 2 * * *", first, last), "02:30+0200");
    EXPECT_EQ(runs("0 3 * * *", first, last), "03:00+0100");
    EXPECT_EQ(runs("*/30 2 * * *", first, last), "02:00+0200 02:30+0200 02:00+0100 02:30+0100");
}

TEST_F(InBerlin, LMeansTheLastDayOfTheMonth) {
    const std::int64_t at = next_run(parsed("0 12 L 2 *"), spans.zone(), second_of(2024, 1, 1));
    EXPECT_EQ(at, second_of(2024, 2, 29) + 11 * 3600);
}

TEST(Calendar, FindsRareDaysAndEndsTheSearch) {
    const Zone utc = {nullptr, [](const void *, std::int64_t) { return ZoneSpan{kEndOfTime, 0}; }};
    // February 29 on a Sunday does not occur for 40 years around 2100, which is not a leap year.
    EXPECT_EQ(next_run(parsed("0 0 29 2 */7"), utc, second_of(2088, 3, 1)), second_of(2128, 2, 29));
    Cron never = parsed("0 0 1 1 *");
    never.months = 0;
    EXPECT_EQ(next_run(never, utc, 0), kEndOfTime);
}

TEST(Calendar, EveryCountsFromItsStart) {
    EXPECT_EQ(next_every(90 * kSecond, 1000, 500), 1000);
    EXPECT_EQ(next_every(90 * kSecond, 1000, 1000), 1000 + 90 * kSecond);
    EXPECT_EQ(next_every(90 * kSecond, 0, 200 * kSecond), 270 * kSecond);
    EXPECT_EQ(next_every(90 * kSecond, 0, 270 * kSecond), 360 * kSecond);
}

}  // namespace
}  // namespace jobq::core
