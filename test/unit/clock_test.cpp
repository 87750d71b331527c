// Steps of the wall clock, and when leases run out: time is an argument, so nothing here sleeps.
#include "core/clock.h"

#include <gtest/gtest.h>

#include <vector>

namespace jobq::core {
namespace {

constexpr Micros kTolerance = kSecond;
constexpr Micros kStart = 800000000 * kSecond;  // a moment in 2025
constexpr Micros kTimeout = kDefaultHeartbeatTimeout;

TEST(ClockStep, NoneWhileBothClocksAgree) {
    for (const Micros elapsed : {Micros{0}, Micros{1}, kSecond, kHour, 365 * kDay})
        EXPECT_EQ(clock_step({kStart, 77}, {kStart + elapsed, 77 + elapsed}, kTolerance), 0) << elapsed;
}

TEST(ClockStep, ForwardAndBackward) {
    EXPECT_EQ(clock_step({kStart, 0}, {kStart + kHour + kSecond, kSecond}, kTolerance), kHour);
    EXPECT_EQ(clock_step({kStart, 0}, {kStart - kHour + kSecond, kSecond}, kTolerance), -kHour);
    EXPECT_EQ(clock_step({kStart, 5}, {kStart, 5 + kMinute}, kTolerance), -kMinute) << "a clock that stood still";
}

TEST(ClockStep, DriftBelowTheToleranceIsNone) {
    for (const Micros step : {kTolerance - 1, -(kTolerance - 1), Micros{1}, Micros{-1}})
        EXPECT_EQ(clock_step({kStart, 0}, {kStart + kMinute + step, kMinute}, kTolerance), 0) << step;
    for (const Micros step : {kTolerance, -kTolerance, kTolerance + 1, -kTolerance - 1})
        EXPECT_EQ(clock_step({kStart, 0}, {kStart + kMinute + step, kMinute}, kTolerance), step) << step;
}

TEST(ClockStep, WithoutToleranceTheSmallestStepCounts) {
    EXPECT_EQ(clock_step({0, 0}, {11, 10}, 0), 1);
    EXPECT_EQ(clock_step({0, 0}, {9, 10}, 0), -1);
    EXPECT_EQ(clock_step({0, 0}, {10, 10}, 0), 0);
}

TEST(ClockStep, ExtremeReadingsSaturate) {
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

TEST(LeaseDeadline, OneTimeoutAfterTheLastHeartbeat) {
    EXPECT_EQ(lease_deadline(kStart, kStart, kTimeout, 0), kStart + kTimeout);
    EXPECT_EQ(lease_deadline(kStart, kStart + kHour, kTimeout, 0), kStart + kHour + kTimeout);
}

TEST(LeaseDeadline, GraceForLeasesOlderThanIt) {
    const Micros grace = kStart + kHour;
    EXPECT_EQ(lease_deadline(kStart, kStart, kTimeout, grace), grace + kTimeout);
    EXPECT_EQ(lease_deadline(kStart, grace - 1, kTimeout, grace), grace + kTimeout);
    EXPECT_EQ(lease_deadline(grace - 1, grace - 1, kTimeout, grace), grace + kTimeout);
}

TEST(LeaseDeadline, NoGraceForLeasesYoungerThanIt) {
    const Micros grace = kStart + kHour;
    EXPECT_EQ(lease_deadline(grace, grace, kTimeout, grace), grace + kTimeout);
    EXPECT_EQ(lease_deadline(grace + 1, grace + 1, kTimeout, grace), grace + 1 + kTimeout);
    EXPECT_EQ(lease_deadline(grace, grace - kMinute, kTimeout, grace), grace - kMinute + kTimeout);
}

TEST(LeaseDeadline, AHeartbeatAfterTheGraceBeganCountsInFull) {
    const Micros grace = kStart + kHour;
    EXPECT_EQ(lease_deadline(kStart, grace + kMinute, kTimeout, grace), grace + kMinute + kTimeout);
}

TEST(LeaseDeadline, GraceNeverShortensALease) {
    for (Micros started = 0; started < 20; started++)
        for (Micros heartbeat = started; heartbeat < 40; heartbeat++)
            for (Micros grace = 0; grace < 40; grace++)
                EXPECT_GE(lease_deadline(started, heartbeat, 7, grace), heartbeat + 7);
}

TEST(LeaseDeadline, Saturates) {
    EXPECT_EQ(lease_deadline(0, kLatest, kLatest, 0), kLatest);
    EXPECT_EQ(lease_deadline(0, 0, INT64_MAX, 0), kLatest);
    EXPECT_EQ(lease_deadline(INT64_MIN, INT64_MIN, kTimeout, INT64_MAX), kLatest);
    EXPECT_EQ(lease_deadline(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN), -kLatest);
}

// The worker heartbeats every `interval` for `length`; returns how many moments were found past the deadline.
int expiries(Micros length, Micros interval, Micros timeout, Micros grace_start) {
    int expired = 0;
    Micros heartbeat = kStart;
    for (Micros now = kStart; now <= kStart + length; now += 100000) {
        if (now - heartbeat >= interval) heartbeat = now;
        if (now >= lease_deadline(kStart, heartbeat, timeout, grace_start)) expired++;
    }
    return expired;
}

TEST(LeaseDeadline, ALongJobThatHeartbeatsIsNeverLost) {
    EXPECT_EQ(expiries(25 * kMinute, 20 * kSecond, 60 * kSecond, 0), 0);
    EXPECT_EQ(expiries(25 * kMinute, 20 * kSecond, 60 * kSecond, kStart + 10 * kMinute), 0);
    EXPECT_EQ(expiries(25 * kMinute, 59 * kSecond, 60 * kSecond, 0), 0);
    EXPECT_GT(expiries(25 * kMinute, 61 * kSecond, 60 * kSecond, 0), 0) << "the test would see a lost one";
}

TEST(LeaseDeadline, ADeadWorkerIsNoticedOneTimeoutAfterItsLastHeartbeat) {
    const Micros last = kStart + 24 * kMinute;
    EXPECT_LT(last + kTimeout - 1, lease_deadline(kStart, last, kTimeout, 0));
    EXPECT_GE(last + kTimeout, lease_deadline(kStart, last, kTimeout, 0));
}

TEST(LeaseDeadline, AForwardStepOfTheClockRescuesNobodyAtOnce) {
    const ClockReading before = {kStart + kMinute, kMinute};
    const ClockReading after = {kStart + 2 * kHour, kMinute + kSecond};
    ASSERT_GT(clock_step(before, after, kTolerance), 0);
    const Micros deadline = lease_deadline(kStart, kStart + kMinute, kTimeout, after.wall);
    EXPECT_LT(after.wall, deadline);
    EXPECT_EQ(deadline, after.wall + kTimeout);
}

TEST(LeaseDeadline, AfterABackwardStepTheFutureHeartbeatIsReplacedByTheGrace) {
    // What the header asks of callers: a heartbeat later than now was written before the step.
    const Micros now = kStart - kHour;
    const Micros heartbeat = kStart;
    const Micros grace = now;
    EXPECT_EQ(lease_deadline(kStart, heartbeat > now ? grace : heartbeat, kTimeout, grace), grace + kTimeout);
}

}  // namespace
}  // namespace jobq::core
