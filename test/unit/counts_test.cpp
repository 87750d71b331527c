// Tests the arithmetic of the counters.
#include "core/counts.h"
#include "core/wide_xid.h"

#include <gtest/gtest.h>

namespace {

using namespace jobq::core;

TEST(AddCounts, AddsEveryNumber) {
    Counts a = {};
    Counts b = {};
    for (int i = 0; i < kJobStatusCount; i++) b.jobs[i] = i - 3;
    for (int i = 0; i < kEventCount; i++) b.events[i] = i;
    add_counts(&a, b);
    add_counts(&a, b);
    EXPECT_EQ(a.jobs[0], -6);
    EXPECT_EQ(a.jobs[6], 6);
    EXPECT_EQ(a.events[4], 8);
}

// Numbers of jobs after which an integer of 31, 32, or 53 bits would be full.
constexpr std::int64_t kFull[] = {INT64_C(1) << 31, INT64_C(1) << 32, INT64_C(1) << 53};

TEST(AddCounts, IsExactForBillionsOfJobs) {
    for (const std::int64_t full : kFull) {
        Counts sum = {};
        Counts one = {};
        sum.jobs[0] = sum.events[0] = full - 1;
        one.jobs[0] = one.events[0] = 1;
        for (int i = 0; i < 2; i++) add_counts(&sum, one);
        EXPECT_EQ(sum.jobs[0], full + 1);
        EXPECT_EQ(sum.events[0], full + 1);
    }
}

TEST(Contains, ATransactionThatHadFinishedAtTheCount) {
    const std::uint32_t running[] = {95, 98};
    const Seen seen = {100, running, 2};
    EXPECT_TRUE(contains(seen, 3));
    EXPECT_TRUE(contains(seen, 94));
    EXPECT_FALSE(contains(seen, 95));
    EXPECT_TRUE(contains(seen, 97));
    EXPECT_FALSE(contains(seen, 98));
    EXPECT_TRUE(contains(seen, 99));
    EXPECT_FALSE(contains(seen, 100));
    EXPECT_FALSE(contains(seen, 1000));
}

TEST(Contains, NothingBeforeTheFirstCount) {
    EXPECT_FALSE(contains({0, nullptr, 0}, 3));
    EXPECT_FALSE(contains({0, nullptr, 0}, UINT64_MAX));
}

TEST(Contains, TransactionIdsAcrossAWraparound) {
    constexpr std::uint64_t epoch = 1ULL << 32;
    const std::uint32_t running[] = {0xFFFFFFF0u, 5};
    const Seen seen = {epoch + 10, running, 2};
    EXPECT_FALSE(contains(seen, 0xFFFFFFF0u));
    EXPECT_TRUE(contains(seen, 0xFFFFFFF1u));
    EXPECT_FALSE(contains(seen, epoch + 5));
    EXPECT_TRUE(contains(seen, epoch + 6));
    // The same lower half, one epoch later: long after the count.
    EXPECT_FALSE(contains(seen, 2 * epoch + 6));
}

TEST(WidenXid, TakesTheEpochBeforeNext) {
    constexpr std::uint64_t epoch = 1ULL << 32;
    EXPECT_EQ(widen_xid(7, 10), 7u);
    EXPECT_EQ(widen_xid(7, epoch + 10), epoch + 7);
    EXPECT_EQ(widen_xid(0xFFFFFFFFu, epoch + 10), 0xFFFFFFFFu);
    EXPECT_EQ(widen_xid(10, epoch + 10), epoch + 10);
}

TEST(NextRecount, IsAtOnceIfThereWasNone) {
    EXPECT_EQ(next_recount(false, 0, 0, kMinute), 0);
    EXPECT_EQ(next_recount(true, 0, 0, kMinute), 0);
}

TEST(NextRecount, WaitsInProportionToTheLastCost) {
    const Micros t = kDay;
    EXPECT_EQ(next_recount(false, t, t + kSecond, kMinute), t + kSecond + 20 * kSecond);
    EXPECT_EQ(next_recount(false, t, t + 1000, kMinute), t + 1000 + 20000);
    EXPECT_EQ(next_recount(true, t, t + 1000, kMinute), t + 1000 + kMinute);
    EXPECT_EQ(next_recount(true, t, t + 2 * kSecond, kMinute), t + 2 * kSecond + 200 * kSecond);
    // The clock has stepped back in the meantime.
    EXPECT_EQ(next_recount(false, t, t - kHour, kMinute), t - kHour);
}

TEST(NextRecount, InATickWaitsOnlyAfterALongRecount) {
    const Micros t = kDay;
    EXPECT_EQ(next_recount_by_hand(0, 0), 0);
    EXPECT_EQ(next_recount_by_hand(t, t + 10000), 0);
    EXPECT_EQ(next_recount_by_hand(t, t + 2 * kSecond), t + 202 * kSecond);
}

// A queue whose events occur one at a time, sampled like the counters.
class Rates : public ::testing::Test {
 protected:
    void happen(Micros at) {
        if (sample_due(last_, at)) {
            Sample &sample = ring_[taken_++ % kSampleCount];
            sample = {at, {}};
            for (int i = 0; i < kEventCount; i++) sample.events[i] = totals_[i];
            last_ = at;
        }
        totals_[0]++;
    }
    double rate(Micros now, Micros since = 0) {
        double found[kEventCount];
        rates(ring_, kSampleCount, totals_, since, now, found);
        EXPECT_EQ(found[1], 0);
        return found[0];
    }
    Sample ring_[kSampleCount] = {};
    std::int64_t totals_[kEventCount] = {};
    Micros last_ = 0;
    int taken_ = 0;
};

constexpr Micros kStart = 1000 * kDay;

TEST_F(Rates, AreZeroWithoutEvents) { EXPECT_EQ(rate(kStart), 0); }

TEST_F(Rates, MatchSteadyActivity) {
    for (Micros t = kStart; t < kStart + 5 * kMinute; t += kSecond / 10) happen(t);
    EXPECT_NEAR(rate(kStart + 5 * kMinute, kStart), 10, 0.2);
}

TEST_F(Rates, MatchSteadyActivityAfterBillionsOfJobs) {
    Micros start = kStart;
    for (const std::int64_t full : kFull) {
        totals_[0] = full - 300;
        for (Micros t = start; t < start + 5 * kMinute; t += kSecond / 10) happen(t);
        EXPECT_NEAR(rate(start + 5 * kMinute, start), 10, 0.2);
        start += kDay;
    }
}

TEST_F(Rates, MatchSlowActivity) {
    for (Micros t = kStart; t < kStart + 20 * kMinute; t += 20 * kSecond) happen(t);
    EXPECT_NEAR(rate(kStart + 20 * kMinute, kStart), 0.05, 0.005);
}

TEST_F(Rates, FallToZeroWithinAboutAMinute) {
    for (Micros t = kStart; t < kStart + 5 * kMinute; t += kSecond / 10) happen(t);
    EXPECT_NEAR(rate(kStart + 5 * kMinute + 30 * kSecond, kStart), 5, 0.5);
    EXPECT_EQ(rate(kStart + 6 * kMinute + 10 * kSecond, kStart), 0);
    EXPECT_EQ(rate(kStart + kDay, kStart), 0);
}

TEST_F(Rates, SpreadABurstOverAMinute) {
    happen(kStart);
    for (int i = 0; i < 120; i++) happen(kStart + kHour + i);
    EXPECT_NEAR(rate(kStart + kHour + 10 * kSecond, kStart), 2, 0.01);
}

TEST_F(Rates, CountANewQueueFromItsStart) {
    for (int i = 0; i < 100; i++) happen(kStart + i * kSecond / 10);
    EXPECT_NEAR(rate(kStart + 10 * kSecond, kStart), 10, 0.1);
    EXPECT_NEAR(rate(kStart + 20 * kSecond, kStart), 5, 0.1);
}

TEST_F(Rates, AreAveragedOverAtLeastASecond) {
    for (int i = 0; i < 100; i++) happen(kStart);
    EXPECT_NEAR(rate(kStart, kStart), 100, 0.1);
}

TEST_F(Rates, SurviveABackwardClockStep) {
    for (Micros t = kStart; t < kStart + 5 * kMinute; t += kSecond / 10) happen(t);
    const Micros back = kStart - kHour;
    EXPECT_EQ(rate(back, kStart), 0);
    for (Micros t = back; t < back + 2 * kMinute; t += kSecond / 10) happen(t);
    EXPECT_NEAR(rate(back + 2 * kMinute, kStart), 10, 0.2);
}

}  // namespace
