// Compares the due and fired runs with a walk from run to run.
#include "schedules/timing_policy.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace jobq::core {
namespace {

// One hour ahead of UTC; from a certain moment on two hours, for half a year, repeatedly.
ZoneSpan summer_time(const void *, std::int64_t second) {
    constexpr std::int64_t half = 182 * 86400;
    const std::int64_t number = second >= 0 ? second / half : (second - half + 1) / half;
    return {(number + 1) * half, number % 2 == 0 ? 3600 : 7200};
}
ZoneSpan utc(const void *, std::int64_t) { return {kEndOfTime, 0}; }

Timing timing_of(const std::string &text, Zone zone = {nullptr, utc}) {
    Timing timing = {};
    CronError error = {};
    EXPECT_TRUE(parse_cron(text, &timing.cron, &error)) << text << ": " << error.problem;
    timing.zone = zone;
    timing.starts_at = -kNoMoment;
    timing.ends_at = kNoMoment;
    return timing;
}

constexpr Micros kMorning = 9000 * kDay + 8 * kHour;  // in 2024
constexpr FiringRules kOnce = {Missed::Once, 100, kNoMoment};
constexpr FiringRules kAll = {Missed::All, 100, kNoMoment};
constexpr FiringRules kSkip = {Missed::Skip, 100, kNoMoment};

struct Fired {
    std::vector<Micros> runs;
    DueRuns due;
};
Fired fire(const Timing &timing, const FiringRules &rules, Micros due, Micros now) {
    Micros runs[kMaxMissed];
    const DueRuns found = due_runs(timing, rules, due, now, runs);
    return {{runs, runs + found.count}, found};
}
using Runs = std::vector<Micros>;

TEST(Timing, ServerTimesAndUnixTimesAreConverted) {
    EXPECT_EQ(micros_of(946684800), 0);
    EXPECT_EQ(unix_second_of(0), 946684800);
    EXPECT_EQ(unix_second_of(-1), 946684799);
    EXPECT_EQ(unix_second_of(kSecond + 1), 946684801);
    EXPECT_EQ(micros_of(unix_second_of(kMorning)), kMorning);
}

TEST(Timing, RunsAreWithinTheBounds) {
    Timing timing = timing_of("0 * * * *");
    EXPECT_EQ(run_after(timing, kMorning), kMorning + kHour);
    timing.starts_at = kMorning + 5 * kHour;
    EXPECT_EQ(run_after(timing, kMorning), kMorning + 5 * kHour);
    timing.ends_at = kMorning + 6 * kHour;
    EXPECT_EQ(run_after(timing, kMorning + 5 * kHour), kMorning + 6 * kHour);
    EXPECT_EQ(run_after(timing, kMorning + 6 * kHour), kNoMoment);
    timing.ends_at = kMorning + 6 * kHour - 1;
    EXPECT_EQ(run_after(timing, kMorning + 5 * kHour), kNoMoment);
}

TEST(Timing, EveryCountsFromItsStart) {
    Timing timing = timing_of("@every 90s");
    timing.every_from = kMorning + 7;
    EXPECT_EQ(run_after(timing, kMorning + 7), kMorning + 7 + 90 * kSecond);
    EXPECT_EQ(run_after(timing, kMorning + kHour), kMorning + 7 + kHour);
    EXPECT_EQ(last_run_between(timing, kMorning, kMorning + kHour), kMorning + 7 + 39 * 90 * kSecond);
    timing.starts_at = timing.every_from;
    EXPECT_EQ(run_after(timing, kMorning - kDay), kMorning + 7);
}

// The range of timestamps is larger than that of a difference of two of them.
TEST(Timing, TheSearchEndsAtTheLatestTime) {
    const Micros latest = 9223371331199999999, epoch = -946684800 * kSecond;
    for (const char *text : {"0 0 1 1 *", "@every 90s"}) {
        const Micros last = last_run_between(timing_of(text), epoch, latest);
        EXPECT_GT(last, kMorning);
        EXPECT_LE(last, kLastMoment);
    }
}

TEST(Timing, ARunOnTimeIsFiredUnderAllRules) {
    const Timing timing = timing_of("0 * * * *");
    for (const FiringRules &rules : {kOnce, kAll, kSkip}) {
        const Fired fired = fire(timing, rules, kMorning, kMorning + 20 * kMillisecond);
        EXPECT_EQ(fired.runs, Runs{kMorning});
        EXPECT_EQ(fired.due.next, kMorning + kHour);
        EXPECT_EQ(fired.due.left, 0);
    }
}

TEST(Timing, OnceFiresTheLatestMissedRun) {
    const Fired fired = fire(timing_of("0 * * * *"), kOnce, kMorning, kMorning + 3 * kHour + kMinute);
    EXPECT_EQ(fired.runs, Runs{kMorning + 3 * kHour});
    EXPECT_EQ(fired.due.next, kMorning + 4 * kHour);
    EXPECT_EQ(fired.due.left, 3);
    EXPECT_EQ(fired.due.last_left, kMorning + 2 * kHour);
    EXPECT_FALSE(fired.due.too_late);
}

TEST(Timing, AllFiresTheLatestMissedRunsUpToTheLimit) {
    FiringRules rules = kAll;
    rules.most = 2;
    const Fired fired = fire(timing_of("0 * * * *"), rules, kMorning, kMorning + 3 * kHour);
    EXPECT_EQ(fired.runs, (Runs{kMorning + 2 * kHour, kMorning + 3 * kHour}));
    EXPECT_EQ(fired.due.left, 2);
    EXPECT_EQ(fired.due.last_left, kMorning + kHour);
    EXPECT_EQ(fire(timing_of("0 * * * *"), kAll, kMorning, kMorning + 3 * kHour).runs.size(), 4);
}

TEST(Timing, SkipFiresTheLatestRunOnlyIfItIsNotLate) {
    const Timing timing = timing_of("0 * * * *");
    EXPECT_EQ(fire(timing, kSkip, kMorning, kMorning + 2 * kHour + kMinute).runs, Runs{kMorning + 2 * kHour});
    const Fired late = fire(timing, kSkip, kMorning, kMorning + 2 * kHour + kMinute + 1);
    EXPECT_TRUE(late.runs.empty());
    EXPECT_EQ(late.due.left, 3);
    EXPECT_TRUE(late.due.too_late);
    FiringRules patient = kSkip;
    patient.deadline = 10 * kMinute;
    EXPECT_EQ(fire(timing, patient, kMorning, kMorning + 10 * kMinute).runs, Runs{kMorning});
}

TEST(Timing, ARunAfterItsDeadlineIsDropped) {
    const Timing timing = timing_of("0 * * * *");
    FiringRules rules = kAll;
    rules.deadline = 90 * kMinute;
    const Fired fired = fire(timing, rules, kMorning, kMorning + 4 * kHour);
    EXPECT_EQ(fired.runs, (Runs{kMorning + 3 * kHour, kMorning + 4 * kHour}));
    EXPECT_EQ(fired.due.left, 3);
    EXPECT_TRUE(fired.due.too_late);
    rules = kOnce;
    rules.deadline = kMinute;
    EXPECT_TRUE(fire(timing, rules, kMorning, kMorning + 4 * kHour + 2 * kMinute).runs.empty());
}

TEST(Timing, ADueRunIsFiredEvenIfTheExpressionNoLongerMatches) {
    const Fired fired = fire(timing_of("0 * * * *"), kAll, kMorning + kMinute, kMorning + 2 * kHour);
    EXPECT_EQ(fired.runs, (Runs{kMorning + kMinute, kMorning + kHour, kMorning + 2 * kHour}));
}

TEST(Timing, NoRunFollowsTheLastOne) {
    Timing timing = timing_of("0 * * * *");
    timing.ends_at = kMorning + kHour;
    const Fired fired = fire(timing, kAll, kMorning, kMorning + kDay);
    EXPECT_EQ(fired.runs, (Runs{kMorning, kMorning + kHour}));
    EXPECT_EQ(fired.due.next, kNoMoment);
}

// However long ago and however many runs there would have been, it takes no noticeable time.
TEST(Timing, AHundredYearsOfMissedRunsTakeNoTime) {
    for (const char *text : {"* * * * * *", "* * * 1 * *", "@every 1s", "0 0 29 2 *", "* * * * * 0"}) {
        FiringRules rules = kAll;
        rules.most = kMaxMissed;
        Timing timing = timing_of(text, {nullptr, summer_time});
        timing.every_from = kMorning;
        const Micros due = run_after(timing, kMorning), now = kMorning + 36525 * kDay;
        const Fired fired = fire(timing, rules, due, now);
        ASSERT_FALSE(fired.runs.empty()) << text;
        EXPECT_GT(fired.due.next, now) << text;
        EXPECT_EQ(run_after(timing, fired.runs.back()), fired.due.next) << text;
        for (std::size_t i = 1; i < fired.runs.size(); i++)
            ASSERT_EQ(run_after(timing, fired.runs[i - 1]), fired.runs[i]) << text;
    }
}

// Compared with a walk over every run.
TEST(Timing, MatchesAWalkOverEveryRun) {
    std::mt19937_64 random(7);
    const char *texts[] = {"*/7 * * * *",    "30 2 * * *",      "0 0 1,15 * *",
                           "15 */6 * * mon", "10,40 1-3 * * *", "@every 37m"};
    for (int i = 0; i < 3000; i++) {
        Timing timing = timing_of(texts[random() % 6], {nullptr, summer_time});
        timing.every_from = kMorning;
        const Micros due = run_after(timing, kMorning + static_cast<Micros>(random() % (400 * kDay)));
        const Micros now = due + static_cast<Micros>(random() % (random() % 2 == 0 ? 3 * kDay : kHour));
        const FiringRules rules = {static_cast<Missed>(random() % 3), 1 + static_cast<int>(random() % 8),
                                   random() % 2 == 0 ? kNoMoment : static_cast<Micros>(random() % kDay)};
        Runs all = {due};
        while (run_after(timing, all.back()) <= now) all.push_back(run_after(timing, all.back()));
        const Micros longest = rules.deadline == kNoMoment && rules.missed == Missed::Skip ? kMinute : rules.deadline;
        Runs wanted;
        for (const Micros run : all)
            if (longest == kNoMoment || now - run <= longest) wanted.push_back(run);
        const std::size_t most = rules.missed == Missed::All ? static_cast<std::size_t>(rules.most) : 1;
        if (wanted.size() > most) wanted.erase(wanted.begin(), wanted.end() - static_cast<std::ptrdiff_t>(most));
        const Fired fired = fire(timing, rules, due, now);
        ASSERT_EQ(fired.runs, wanted) << i;
        ASSERT_EQ(fired.due.next, run_after(timing, all.back())) << i;
        ASSERT_EQ(fired.due.left,
                  static_cast<std::int64_t>(std::min<std::size_t>(all.size(), kMostCounted) - wanted.size()))
            << i;
        if (fired.due.left > 0) {
            ASSERT_EQ(fired.due.last_left, all[all.size() - wanted.size() - 1]) << i;
        }
    }
}

TEST(Timing, ContinuesAfterTheLastRunIfTheClockWasSetBack) {
    EXPECT_EQ(resume_after(kMorning, kMorning - kHour), kMorning);
    EXPECT_EQ(resume_after(kMorning, kMorning + kHour), kMorning + kHour);
    EXPECT_EQ(resume_after(kMorning, kMorning + 2 * kDay), kMorning);
}

TEST(Timing, JitterIsConstantAndSpread) {
    EXPECT_EQ(jitter_of("a", kMorning, 0), 0);
    EXPECT_EQ(jitter_of("a", kMorning, kMinute), jitter_of("a", kMorning, kMinute));
    int early = 0;
    for (int i = 0; i < 1000; i++) {
        const Micros jitter = jitter_of("schedule " + std::to_string(i), kMorning, kMinute);
        ASSERT_GE(jitter, 0);
        ASSERT_LT(jitter, kMinute);
        early += jitter < kMinute / 2 ? 1 : 0;
    }
    EXPECT_NEAR(early, 500, 100);
}

TEST(Timing, BackoffGrowsUpToALimit) {
    EXPECT_EQ(firing_backoff(1), kSecond);
    EXPECT_EQ(firing_backoff(2), 2 * kSecond);
    EXPECT_EQ(firing_backoff(5), 16 * kSecond);
    EXPECT_EQ(firing_backoff(100), 5 * kMinute);
    EXPECT_EQ(firing_backoff(0), kSecond);
}

}  // namespace
}  // namespace jobq::core
