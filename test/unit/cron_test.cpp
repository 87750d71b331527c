// Tests cron expressions: what is accepted, what each expression means, and what an error says.
#include "schedules/cron_policy.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace jobq::core {
namespace {

Cron parsed(const std::string &text) {
    Cron cron;
    CronError error = {};
    EXPECT_TRUE(parse_cron(text, &cron, &error)) << text << ": " << error.problem << " at " << error.position;
    return cron;
}

std::string refusal(const std::string &text) {
    Cron cron;
    CronError error = {};
    if (parse_cron(text, &cron, &error)) return "accepted";
    return std::string(field_name(error.field)) + " " + std::to_string(error.position) + ": " + error.problem;
}

std::vector<int> members(std::uint64_t set) {
    std::vector<int> found;
    for (int i = 0; i < 64; i++)
        if ((set >> i & 1) != 0) found.push_back(i);
    return found;
}

using Numbers = std::vector<int>;

TEST(Cron, FiveFieldsRunAtTheFullMinute) {
    const Cron cron = parsed("5 4 3 2 1");
    EXPECT_EQ(members(cron.seconds), Numbers{0});
    EXPECT_EQ(members(cron.minutes), Numbers{5});
    EXPECT_EQ(members(cron.hours), Numbers{4});
    EXPECT_EQ(members(cron.days), Numbers{3});
    EXPECT_EQ(members(cron.months), Numbers{2});
    EXPECT_EQ(members(cron.weekdays), Numbers{1});
    EXPECT_FALSE(cron.needs_both_days);
    EXPECT_FALSE(cron.follows_clock);
}

TEST(Cron, SixFieldsBeginWithSeconds) {
    EXPECT_EQ(members(parsed("*/20 0 * * * *").seconds), (Numbers{0, 20, 40}));
    EXPECT_TRUE(parsed("*/20 0 1 * * *").follows_clock);
}

TEST(Cron, ListsRangesStepsAndNames) {
    EXPECT_EQ(members(parsed("1,5-7,50/4 * * * *").minutes), (Numbers{1, 5, 6, 7, 50, 54, 58}));
    EXPECT_EQ(members(parsed("10-30/7 * * * *").minutes), (Numbers{10, 17, 24}));
    EXPECT_EQ(members(parsed("0 0 * Jan,oct-DEC *").months), (Numbers{1, 10, 11, 12}));
    EXPECT_EQ(members(parsed("0 0 * * mon-fri").weekdays), (Numbers{1, 2, 3, 4, 5}));
    EXPECT_EQ(members(parsed("0 0 * * fri-sun").weekdays), (Numbers{0, 5, 6}));
    EXPECT_EQ(members(parsed("0 0 15,L * *").days), (Numbers{0, 15}));
    EXPECT_EQ(members(parsed("0 0 * * */2").weekdays), (Numbers{0, 2, 4, 6}));
}

TEST(Cron, SundayIsBothZeroAndSeven) {
    EXPECT_EQ(members(parsed("0 0 * * 7").weekdays), Numbers{0});
    EXPECT_EQ(members(parsed("0 0 * * 5-7").weekdays), (Numbers{0, 5, 6}));
    EXPECT_EQ(members(parsed("0 0 * * 5/2").weekdays), Numbers{5});
    EXPECT_EQ(members(parsed("0 0 * * 7/1").weekdays), Numbers{0});
    EXPECT_EQ(members(parsed("0 0 * * 7/2").weekdays), Numbers{0});
    EXPECT_EQ(members(parsed("0 0 * * 0-7").weekdays), (Numbers{0, 1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(members(parsed("0 0 * * 0-0,sun-sun/2").weekdays), Numbers{0});
}

TEST(Cron, NicknamesAreExpanded) {
    EXPECT_EQ(members(parsed("@hourly").minutes), Numbers{0});
    EXPECT_EQ(members(parsed("@Weekly").weekdays), Numbers{0});
    EXPECT_EQ(members(parsed(" @yearly ").months), Numbers{1});
    EXPECT_EQ(parsed("@every 90s").every, 90 * kSecond);
    EXPECT_EQ(parsed("@every 1h30m").every, 90 * kMinute);
    EXPECT_EQ(parsed("@every 2d").every, 2 * kDay);
}

TEST(Cron, BothDaysMustMatchIfOneBeginsWithAStar) {
    EXPECT_TRUE(parsed("0 0 * * 1").needs_both_days);
    EXPECT_TRUE(parsed("0 0 */2 * 1").needs_both_days);
    EXPECT_TRUE(parsed("0 0 13 * *").needs_both_days);
    EXPECT_FALSE(parsed("0 0 13 * 5").needs_both_days);
    EXPECT_FALSE(parsed("0 0 1-7 * 1").needs_both_days);
}

TEST(Cron, StarsRangesAndStepsFollowTheClock) {
    EXPECT_TRUE(parsed("* 2 * * *").follows_clock);
    EXPECT_TRUE(parsed("0 1-3 * * *").follows_clock);
    EXPECT_TRUE(parsed("0/15 2 * * *").follows_clock);
    EXPECT_FALSE(parsed("0,30 1,2 * * 1-5").follows_clock);
    EXPECT_FALSE(parsed("@daily").follows_clock);
}

TEST(Cron, ErrorsNameTheFieldAndThePosition) {
    EXPECT_EQ(refusal(""), "expression 1: The expression must have five or six fields.");
    EXPECT_EQ(refusal("* * * *"), "expression 1: The expression must have five or six fields.");
    EXPECT_EQ(refusal("* * * * * * *"), "expression 1: The expression must have five or six fields.");
    EXPECT_EQ(refusal("60 * * * *"), "minute 1: The value must be from 0 to 59.");
    EXPECT_EQ(refusal("0 0 32 * *"), "day of month 5: The value must be from 1 to 31, or L.");
    EXPECT_EQ(refusal("0 0 1 13 *"), "month 7: The value must be from 1 to 12 or from jan to dec.");
    EXPECT_EQ(refusal("0 0 * * foo"), "weekday 9: The value must be from 0 to 7 or from sun to sat.");
    EXPECT_EQ(refusal("5-3 * * * *"), "minute 3: The range ends before it begins.");
    EXPECT_EQ(refusal("*/0 * * * *"), "minute 3: The step must be at least 1 and must not exceed the range.");
    EXPECT_EQ(refusal("*/ * * * *"), "minute 3: The step must be at least 1 and must not exceed the range.");
    EXPECT_EQ(refusal("1, * * * *"), "minute 3: The value must be from 0 to 59.");
    EXPECT_EQ(refusal("1x * * * *"), "minute 2: The character is not allowed.");
    EXPECT_EQ(refusal("99999999999999999999 * * * *"), "minute 1: The value must be from 0 to 59.");
    EXPECT_EQ(refusal("@fortnightly").substr(0, 14), "expression 1: ");
    EXPECT_EQ(refusal("@every"), "expression 7: The time span must be at least one second.");
    EXPECT_EQ(refusal("@every 0s"), "expression 8: The time span must be at least one second.");
    EXPECT_EQ(refusal("@every 90"), "expression 10: The unit must be s, m, h, or d.");
    EXPECT_EQ(refusal("@every 367d"), "expression 8: The time span must be at most 366 days.");
    EXPECT_EQ(refusal("@every 1h x"), "expression 11: Nothing can follow the time span.");
    EXPECT_EQ(refusal(std::string(1001, '*')), "expression 1: The expression must have at most 1000 bytes.");
}

TEST(Cron, ExpressionsThatNeverMatchAreRejected) {
    EXPECT_EQ(refusal("0 0 30 2 *"), "expression 1: The day never occurs.");
    EXPECT_EQ(refusal("0 0 31 2,4,6,9,11 *"), "expression 1: The day never occurs.");
    EXPECT_EQ(refusal("0 0 29 2 *"), "accepted");
    EXPECT_EQ(refusal("0 0 L 2 *"), "accepted");
    EXPECT_EQ(refusal("0 0 30 2 1"), "accepted");  // or on a Monday
}

TEST(Cron, RandomTextIsParsedOrRejectedWithAValidPosition) {
    std::mt19937 random(7);
    const std::string characters = "0123456789*/,-LlabcdefjmnosuwTUE@ \t.x";
    for (int round = 0; round < 200000; round++) {
        std::string text(random() % 24, ' ');
        for (char &c : text) c = characters[random() % characters.size()];
        Cron cron;
        CronError error = {};
        if (parse_cron(text, &cron, &error)) continue;
        ASSERT_NE(error.problem, nullptr) << text;
        ASSERT_GE(error.position, 1) << text;
        ASSERT_LE(error.position, static_cast<int>(text.size()) + 1) << text;
    }
}

TEST(Cron, DayNumbersMatchTheCalendar) {
    Day before = day_of(-719528 - 366);  // in the year -1
    for (std::int64_t number = before.number + 1; number < 200000; number++) {
        const Day day = day_of(number);
        ASSERT_EQ(day.weekday, (before.weekday + 1) % 7);
        const bool new_month = before.day == days_in_month(before.year, before.month);
        ASSERT_EQ(day.day, new_month ? 1 : before.day + 1) << number;
        ASSERT_EQ(day.month, new_month ? before.month % 12 + 1 : before.month);
        ASSERT_EQ(day.year, new_month && before.month == 12 ? before.year + 1 : before.year);
        before = day;
    }
    const Day epoch = day_of(0);
    EXPECT_EQ(epoch.year * 10000 + epoch.month * 100 + epoch.day, 19700101);
    EXPECT_EQ(epoch.weekday, 4);
    EXPECT_EQ(days_in_month(2100, 2), 28);
    EXPECT_EQ(days_in_month(2000, 2), 29);
}

}  // namespace
}  // namespace jobq::core
