// Tests states, limits, leases, and saturating arithmetic.
#include "core/job.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace jobq::core {
namespace {

const std::vector<Micros> kInteresting = {
    INT64_MIN, INT64_MIN + 1, -kLatest - 1, -kLatest, -kLatest + 1, -kDay,         -1,       0, 1, kSecond,
    kDay,      1LL << 62,     kLatest - 1,  kLatest,  kLatest + 1,  INT64_MAX - 1, INT64_MAX};

Micros clamped(__int128 exact) {
    if (exact > kLatest) return kLatest;
    if (exact < -kLatest) return -kLatest;
    return static_cast<Micros>(exact);
}

TEST(JobStatus, NamesRoundTrip) {
    std::set<std::string> names;
    for (const StatusRow &row : kJobStatuses) {
        EXPECT_STREQ(status_name(row.status), row.label);
        names.insert(row.label);
        JobStatus parsed = row.status == JobStatus::Failed ? JobStatus::Scheduled : JobStatus::Failed;
        ASSERT_TRUE(parse_status(row.label, &parsed));
        EXPECT_EQ(parsed, row.status);
    }
    EXPECT_EQ(names.size(), static_cast<std::size_t>(kJobStatusCount));
}

TEST(JobStatus, ParseRejectsOtherTextAndDoesNotChangeTheStatus) {
    JobStatus status = JobStatus::Blocked;
    for (const char *label : {"", "Pending", "PENDING", "pendin", "pendingg", " pending", "pending ", "unknown", "0"}) {
        EXPECT_FALSE(parse_status(label, &status)) << label;
        EXPECT_EQ(status, JobStatus::Blocked);
    }
}

TEST(JobStatus, AnInvalidStatusIsUnknown) {
    for (int i = kJobStatusCount; i <= UINT8_MAX; i++)
        EXPECT_STREQ(status_name(static_cast<JobStatus>(i)), "unknown") << i;
}

TEST(Lease, IsPositiveAndExactInADoubleForAnyBits) {
    const std::int64_t limit = 1LL << 53;
    std::vector<std::uint64_t> inputs = {0, 1, UINT64_MAX, UINT64_MAX - 1, 1ULL << 63, 1ULL << 53, (1ULL << 11) - 1};
    for (int bit = 0; bit < 64; bit++) inputs.push_back(1ULL << bit);
    for (const std::uint64_t random : inputs) {
        const std::int64_t lease = lease_from_random(random);
        EXPECT_GT(lease, 0) << random;
        EXPECT_LT(lease, limit) << random;
        EXPECT_EQ(static_cast<std::int64_t>(static_cast<double>(lease)), lease) << random;
    }
}

TEST(Lease, UsesAll53Bits) {
    EXPECT_EQ(lease_from_random(UINT64_MAX), (1LL << 53) - 1);
    std::set<std::int64_t> leases;
    for (int bit = 11; bit < 64; bit++) leases.insert(lease_from_random(1ULL << bit));
    EXPECT_EQ(leases.size(), 53U);
}

TEST(SaturatingArithmetic, MatchesExactArithmetic) {
    for (const Micros a : kInteresting) {
        for (const Micros b : kInteresting) {
            EXPECT_EQ(saturating_add(a, b), clamped(static_cast<__int128>(a) + b)) << a << " + " << b;
            EXPECT_EQ(saturating_subtract(a, b), clamped(static_cast<__int128>(a) - b)) << a << " - " << b;
        }
    }
}

TEST(SaturatingArithmetic, ComputesOrdinaryValues) {
    EXPECT_EQ(saturating_add(kHour, kMinute), 3660 * kSecond);
    EXPECT_EQ(saturating_subtract(kHour, kMinute), 3540 * kSecond);
    EXPECT_EQ(saturating_add(kLatest, 1), kLatest);
    EXPECT_EQ(saturating_add(kLatest, -1), kLatest - 1);
}

TEST(HeartbeatSeconds, IsAThirdInWholeSecondsAndAtLeastOne) {
    EXPECT_EQ(heartbeat_seconds(kMinute), 20);
    EXPECT_EQ(heartbeat_seconds(kMillisecond), 1);
    EXPECT_EQ(heartbeat_seconds(0), 1);
    EXPECT_EQ(heartbeat_seconds(-kHour), 1);
    EXPECT_EQ(heartbeat_seconds(INT64_MIN), 1);
    EXPECT_EQ(heartbeat_seconds(3 * kSecond), 1);
    EXPECT_EQ(heartbeat_seconds(6 * kSecond - 1), 1);
    EXPECT_EQ(heartbeat_seconds(6 * kSecond), 2);
    EXPECT_EQ(heartbeat_seconds(kDay), 28800);
}

TEST(HeartbeatSeconds, SaturatesAndNeverFalls) {
    EXPECT_EQ(heartbeat_seconds(INT64_MAX), INT_MAX);
    EXPECT_EQ(heartbeat_seconds(3 * kSecond * INT_MAX), INT_MAX);
    EXPECT_EQ(heartbeat_seconds(3 * kSecond * INT_MAX - 1), INT_MAX - 1);
    int last = 0;
    for (Micros timeout = 0; timeout < kHour; timeout += 777777) {
        const int seconds = heartbeat_seconds(timeout);
        EXPECT_GE(seconds, last);
        last = seconds;
    }
}

TEST(HeartbeatSeconds, LeavesRoomForTwoMissedHeartbeats) {
    for (Micros timeout = 3 * kSecond; timeout < kHour; timeout += 777777)
        EXPECT_LE(3 * heartbeat_seconds(timeout) * kSecond, timeout);
}

}  // namespace
}  // namespace jobq::core
