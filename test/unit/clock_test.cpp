// Tests steps of the wall clock. Time is an argument, so nothing here sleeps.
#include "core/clock.h"

#include <gtest/gtest.h>

#include <vector>

namespace jobq::core {
namespace {

constexpr Micros kTolerance = kSecond;
constexpr Micros kStart = 800000000 * kSecond;  // a moment in 2025

TEST(BoundedMoment, LeavesRoomForArithmetic) {
    EXPECT_EQ(bounded_moment(0), 0);
    EXPECT_EQ(bounded_moment(kLastMoment), kLastMoment);
    EXPECT_EQ(bounded_moment(INT64_MAX), kLastMoment);
    EXPECT_EQ(bounded_moment(INT64_MIN), kFirstMoment);
}

TEST(ClockStep, IsZeroWhileBothClocksAgree) {
    for (const Micros elapsed : {Micros{0}, Micros{1}, kSecond, kHour, 365 * kDay})
        EXPECT_EQ(clock_step({kStart, 77}, {kStart + elapsed, 77 + elapsed}, kTolerance), 0) << elapsed;
}

TEST(ClockStep, IsMeasuredInBothDirections) {
    EXPECT_EQ(clock_step({kStart, 0}, {kStart + kHour + kSecond, kSecond}, kTolerance), kHour);
    EXPECT_EQ(clock_step({kStart, 0}, {kStart - kHour + kSecond, kSecond}, kTolerance), -kHour);
    EXPECT_EQ(clock_step({kStart, 5}, {kStart, 5 + kMinute}, kTolerance), -kMinute) << "a clock that stood still";
}

TEST(ClockStep, IsZeroForDriftBelowTheTolerance) {
    for (const Micros step : {kTolerance - 1, -(kTolerance - 1), Micros{1}, Micros{-1}})
        EXPECT_EQ(clock_step({kStart, 0}, {kStart + kMinute + step, kMinute}, kTolerance), 0) << step;
    for (const Micros step : {kTolerance, -kTolerance, kTolerance + 1, -kTolerance - 1})
        EXPECT_EQ(clock_step({kStart, 0}, {kStart + kMinute + step, kMinute}, kTolerance), step) << step;
}

TEST(ClockStep, DetectsTheSmallestStepWithoutTolerance) {
    EXPECT_EQ(clock_step({0, 0}, {11, 10}, 0), 1);
    EXPECT_EQ(clock_step({0, 0}, {9, 10}, 0), -1);
    EXPECT_EQ(clock_step({0, 0}, {10, 10}, 0), 0);
}

TEST(ClockStep, SaturatesForExtremeTimes) {
    const std::vector<Micros> extremes = {INT64_MIN, -kLatest, -1, 0, 1, kLatest, INT64_MAX};
    for (const Micros a : extremes)
        for (const Micros b : extremes)
            for (const Micros c : extremes)
                for (const Micros d : extremes)
                    for (const Micros tolerance : extremes) {
                        const Micros step = clock_step({a, b}, {c, d}, tolerance);
                        EXPECT_LE(step, kLatest);
                        EXPECT_GE(step, -kLatest);
                    }
    EXPECT_EQ(clock_step({INT64_MIN, 0}, {INT64_MAX, 0}, kTolerance), kLatest);
    EXPECT_EQ(clock_step({INT64_MAX, 0}, {INT64_MIN, 0}, kTolerance), -kLatest);
}

}  // namespace
}  // namespace jobq::core
