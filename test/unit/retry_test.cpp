// Tests the backoff, and what happens to a job whose attempt has ended.
#include "core/queue_settings.h"
#include "core/retry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <random>
#include <vector>

namespace jobq::core {
namespace {

constexpr RetryPolicy kDefault = {kDefaultSettings.backoff_base, kDefaultSettings.backoff_max};
constexpr std::uint32_t kMiddle = 1U << 31;

// Computes the delay without jitter in the slow way.
Micros plain_delay(const RetryPolicy &policy, int attempt) {
    __int128 delay = policy.base;
    for (int i = 1; i < attempt && delay < policy.max; i++) delay *= 2;
    return static_cast<Micros>(delay < policy.max ? delay : policy.max);
}

TEST(NextAttempt, CountsFromOneToTheLimit) {
    EXPECT_EQ(next_attempt(0), 1);
    EXPECT_EQ(next_attempt(19), 20);
    EXPECT_EQ(next_attempt(INT_MIN), 1);
    EXPECT_EQ(next_attempt(kMaxAttempts - 1), kMaxAttempts);
    EXPECT_EQ(next_attempt(INT_MAX), kMaxAttempts);
}

TEST(Backoff, DoublesFromTheBaseUpToTheMaximum) {
    const Micros expected[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600};
    for (int attempt = 1; attempt <= 15; attempt++)
        EXPECT_EQ(backoff(kDefault, attempt, kMiddle), expected[attempt - 1] * kSecond) << attempt;
}

TEST(Backoff, JitterIsTenPercentEitherWayAndReachesBothEnds) {
    for (int attempt = 1; attempt <= 20; attempt++) {
        const Micros delay = plain_delay(kDefault, attempt);
        EXPECT_EQ(backoff(kDefault, attempt, 0), delay - delay / 10);
        EXPECT_EQ(backoff(kDefault, attempt, UINT32_MAX), delay + delay / 10);
    }
}

TEST(Backoff, JitterIsSpreadEvenly) {
    std::mt19937 random(20260101);
    const int draws = 100000;
    int buckets[10] = {};
    double sum = 0;
    for (int i = 0; i < draws; i++) {
        const Micros delay = backoff({kMinute, kHour}, 1, static_cast<std::uint32_t>(random()));
        ASSERT_GE(delay, 54 * kSecond);
        ASSERT_LE(delay, 66 * kSecond);
        sum += static_cast<double>(delay);
        const Micros bucket = (delay - 54 * kSecond) * 10 / (12 * kSecond + 1);
        buckets[bucket]++;
    }
    EXPECT_NEAR(sum / draws, 60.0 * kSecond, 0.05 * kSecond);
    for (const int count : buckets) EXPECT_NEAR(count, draws / 10, 500);
}

TEST(Backoff, GrowsWithTheRandomNumber) {
    Micros last = 0;
    for (std::uint64_t random = 0; random <= UINT32_MAX; random += 1048573) {
        const Micros delay = backoff(kDefault, 9, static_cast<std::uint32_t>(random));
        EXPECT_GE(delay, last);
        last = delay;
    }
}

TEST(Backoff, HandlesAttemptsOutOfRange) {
    for (const int attempt : {INT_MIN, -1, 0, 1}) EXPECT_EQ(backoff(kDefault, attempt, kMiddle), kSecond) << attempt;
    for (const int attempt : {62, 63, 64, 65, 1000, INT_MAX})
        EXPECT_EQ(backoff(kDefault, attempt, kMiddle), kHour) << attempt;
}

TEST(Backoff, UsesTheListAndRepeatsItsLastDelay) {
    const Micros delays[] = {10 * kSecond, kSecond, 5 * kMinute};
    const RetryPolicy policy = {kHour, kDay, {delays, 3}};
    for (const int attempt : {INT_MIN, 0, 1}) EXPECT_EQ(backoff(policy, attempt, kMiddle), 10 * kSecond) << attempt;
    EXPECT_EQ(backoff(policy, 2, kMiddle), kSecond);
    for (const int attempt : {3, 4, INT_MAX}) EXPECT_EQ(backoff(policy, attempt, kMiddle), 5 * kMinute) << attempt;
    EXPECT_EQ(backoff(policy, 3, 0), 5 * kMinute - 30 * kSecond);
    EXPECT_EQ(backoff(policy, 3, UINT32_MAX), 5 * kMinute + 30 * kSecond);
    const Micros invalid[] = {INT64_MIN, INT64_MAX};
    EXPECT_EQ(backoff({0, 0, {invalid, 2}}, 1, kMiddle), 0);
    EXPECT_GT(backoff({0, 0, {invalid, 2}}, 2, UINT32_MAX), kDay) << "no overflow";
}

TEST(Backoff, HandlesAPolicyOutOfRange) {
    for (const std::uint32_t random : {0U, kMiddle, UINT32_MAX}) {
        EXPECT_EQ(backoff({0, kHour}, 5, random), 0);
        EXPECT_EQ(backoff({kSecond, 0}, 5, random), 0);
        EXPECT_EQ(backoff({-kSecond, kHour}, 5, random), 0);
        EXPECT_EQ(backoff({kSecond, -1}, 5, random), 0);
        EXPECT_EQ(backoff({INT64_MIN, INT64_MIN}, INT_MAX, random), 0);
        EXPECT_EQ(backoff({1, 9}, INT_MAX, random), 9) << "too short to spread";
    }
    EXPECT_EQ(backoff({kHour, kSecond}, 1, kMiddle), kSecond) << "a base above the maximum is the maximum";
}

TEST(Backoff, IsNeverNegativeOrBeyondTheLatestTime) {
    const Micros spans[] = {INT64_MIN, -1, 0, 1, 9, 10, kSecond, kDay, kLatest / 2, kLatest, INT64_MAX};
    for (const Micros base : spans) {
        for (const Micros max : spans) {
            for (const int attempt : {INT_MIN, 0, 1, 2, 31, 62, 63, 64, INT_MAX}) {
                for (const std::uint32_t random : {0U, 1U, kMiddle, UINT32_MAX}) {
                    const Micros delay = backoff({base, max}, attempt, random);
                    EXPECT_GE(delay, 0);
                    EXPECT_LE(delay, kLatest);
                }
            }
        }
    }
    EXPECT_EQ(backoff({1, INT64_MAX}, INT_MAX, UINT32_MAX), kLatest);
}

TEST(Backoff, IsWithinTheJitterOfThePlainDelay) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 20000; i++) {
        const RetryPolicy policy = {static_cast<Micros>(random() % kDay), static_cast<Micros>(random() % (30 * kDay))};
        const int attempt = static_cast<int>(random() % 70) + 1;
        const Micros plain = plain_delay(policy, attempt);
        const Micros delay = backoff(policy, attempt, static_cast<std::uint32_t>(random()));
        ASSERT_GE(delay, plain - plain / 10);
        ASSERT_LE(delay, plain + plain / 10);
    }
}

TEST(AfterFailure, RetriesWhileAttemptsAreLeft) {
    EXPECT_EQ(after_failure(1, 20, true, false), JobStatus::Scheduled);
    EXPECT_EQ(after_failure(19, 20, true, false), JobStatus::Scheduled);
    EXPECT_EQ(after_failure(20, 20, true, false), JobStatus::Failed);
    EXPECT_EQ(after_failure(21, 20, true, false), JobStatus::Failed);
    EXPECT_EQ(after_failure(1, 1, true, false), JobStatus::Failed);
    EXPECT_EQ(after_failure(INT_MAX, INT_MAX, true, false), JobStatus::Failed);
    EXPECT_EQ(after_failure(INT_MAX - 1, INT_MAX, true, false), JobStatus::Scheduled);
    EXPECT_EQ(after_failure(0, INT_MIN, true, false), JobStatus::Failed);
}

TEST(AfterFailure, TheWorkerCanPreventARetry) { EXPECT_EQ(after_failure(1, 20, false, false), JobStatus::Failed); }

TEST(AfterFailure, ACancelRequestTakesPrecedence) {
    for (const int attempts : {1, 20, 21})
        for (const bool wants_retry : {false, true})
            EXPECT_EQ(after_failure(attempts, 20, wants_retry, true), JobStatus::Cancelled);
}

TEST(AfterLoss, TheJobIsPendingAtOnceUntilAttemptsOrLossesAreExhausted) {
    EXPECT_EQ(after_loss(1, 20, 1, 3, false, false), JobStatus::Pending);
    EXPECT_EQ(after_loss(2, 20, 2, 3, false, false), JobStatus::Pending);
    EXPECT_EQ(after_loss(3, 20, 3, 3, false, false), JobStatus::Failed);
    EXPECT_EQ(after_loss(20, 20, 1, 3, false, false), JobStatus::Failed);
    EXPECT_EQ(after_loss(19, 20, 1, 3, false, false), JobStatus::Pending);
    EXPECT_EQ(after_loss(1, 20, 1, 1, false, false), JobStatus::Failed);
    EXPECT_EQ(after_loss(INT_MAX, INT_MAX, 1, INT_MAX, false, false), JobStatus::Failed);
    EXPECT_EQ(after_loss(1, INT_MAX, INT_MAX, INT_MAX, false, false), JobStatus::Failed);
}

TEST(AfterLoss, ACancelRequestTakesPrecedence) {
    EXPECT_EQ(after_loss(1, 20, 1, 3, false, true), JobStatus::Cancelled);
    EXPECT_EQ(after_loss(20, 20, 3, 3, false, true), JobStatus::Cancelled);
}

TEST(AfterLoss, AJobThatKillsEveryWorkerFails) {
    for (int max_lost = 1; max_lost <= 10; max_lost++) {
        int starts = 0;
        int lost = 0;
        JobStatus status = JobStatus::Pending;
        while (status == JobStatus::Pending) {
            starts++;
            lost++;
            ASSERT_LE(starts, max_lost);
            status = after_loss(starts, kDefaultSettings.max_attempts, lost, max_lost, false, false);
        }
        EXPECT_EQ(status, JobStatus::Failed);
        EXPECT_EQ(starts, max_lost);
    }
}

TEST(AfterLoss, ALossTogetherWithOthersCountsOnlyAsAnAttempt) {
    EXPECT_EQ(after_loss(1, 20, 0, 1, true, false), JobStatus::Pending);
    EXPECT_EQ(after_loss(4, 20, 3, 3, true, false), JobStatus::Pending);
    EXPECT_EQ(after_loss(20, 20, 0, 3, true, false), JobStatus::Failed);
    EXPECT_EQ(after_loss(1, 20, 0, 3, true, true), JobStatus::Cancelled);
}

// Compared pair by pair.
std::vector<bool> company_of(const std::vector<LastSign> &signs) {
    std::vector<bool> found(signs.size());
    for (std::size_t i = 0; i < signs.size(); i++)
        for (std::size_t j = 0; j < signs.size(); j++) {
            if (i == j || signs[i].worker != signs[j].worker || !(signs[i].lost || signs[j].lost)) continue;
            const LastSign &first = signs[i].at <= signs[j].at ? signs[i] : signs[j];
            const LastSign &second = signs[i].at <= signs[j].at ? signs[j] : signs[i];
            if (second.at <= saturating_add(first.at, first.timeout / 2)) found[i] = true;
        }
    return found;
}

std::vector<bool> found_company(std::vector<LastSign> signs) {
    bool found[64];
    std::sort(signs.begin(), signs.end(), earlier_sign);
    find_company(signs.data(), static_cast<int>(signs.size()), found);
    return std::vector<bool>(found, found + signs.size());
}

using Bools = std::vector<bool>;

TEST(Company, IsJobsOfOneWorkerThatWereLostTogether) {
    EXPECT_EQ(found_company({}), Bools());
    EXPECT_EQ(found_company({{1, 0, kMinute, true}}), Bools{false});
    EXPECT_EQ(found_company({{1, 0, kMinute, true}, {1, 0, kMinute, true}}), Bools({true, true}));
    EXPECT_EQ(found_company({{1, 0, kMinute, true}, {2, 0, kMinute, true}}), Bools({false, false}));
    // The last heartbeats of a worker that sends them every 20 s, and of one that keeps running.
    EXPECT_EQ(found_company({{1, 0, kMinute, true}, {1, 20 * kSecond, kMinute, true}}), Bools({true, true}));
    EXPECT_EQ(found_company({{1, 0, kMinute, true}, {1, 40 * kSecond, kMinute, false}}), Bools({false, false}));
    // A job that is still running counts as lost together only with a job that is lost.
    EXPECT_EQ(found_company({{1, 0, kMinute, true}, {1, 1, kHour, false}, {1, kMinute, kHour, false}}),
              Bools({true, true, false}));
    // If heartbeats are rarer, the later one may be later.
    EXPECT_EQ(found_company({{1, 0, kHour, false}, {1, 5 * kMinute, kSecond, true}}), Bools({true, true}));
}

TEST(Company, HandlesExtremeTimes) {
    EXPECT_EQ(found_company({{1, INT64_MIN, kMinute, true}}), Bools{false});
    EXPECT_EQ(found_company({{1, INT64_MAX, kMinute, true}}), Bools{false});
    EXPECT_EQ(found_company({{1, INT64_MIN, kMinute, true}, {1, 0, kMinute, true}}), Bools({false, false}));
    EXPECT_EQ(found_company({{1, 0, kMinute, true}, {1, INT64_MAX, kMinute, true}}), Bools({false, false}));
}

TEST(Company, MatchesAComparisonOfAllPairs) {
    std::mt19937 random(20260301);
    const auto below = [&](std::uint32_t bound) { return static_cast<std::int64_t>(random() % bound); };
    int alone = 0, together = 0;
    for (int round = 0; round < 20000; round++) {
        std::vector<LastSign> signs(static_cast<std::size_t>(below(12)));
        for (LastSign &sign : signs) sign = {below(3), below(100), below(2) * below(80), below(2) == 0};
        std::sort(signs.begin(), signs.end(), earlier_sign);
        const Bools expected = company_of(signs);
        EXPECT_EQ(found_company(signs), expected);
        for (const bool one : expected) (one ? together : alone)++;
    }
    EXPECT_GT(alone, 10000);
    EXPECT_GT(together, 10000);
}

TEST(AfterFailure, MaxAttemptsIsTheNumberOfAttempts) {
    for (int max_attempts = 1; max_attempts <= 50; max_attempts++) {
        int starts = 1;
        while (after_failure(starts, max_attempts, true, false) == JobStatus::Scheduled) starts++;
        EXPECT_EQ(starts, max_attempts);
    }
}

TEST(WaitingStatus, AJobThatIsDueIsPending) {
    EXPECT_EQ(waiting_status(kHour, kHour), JobStatus::Pending);
    EXPECT_EQ(waiting_status(kHour - 1, kHour), JobStatus::Pending);
    EXPECT_EQ(waiting_status(kHour + 1, kHour), JobStatus::Scheduled);
    EXPECT_EQ(waiting_status(INT64_MIN, 0), JobStatus::Pending);
    EXPECT_EQ(waiting_status(kLatest, 0), JobStatus::Scheduled);
    EXPECT_EQ(waiting_status(INT64_MAX, INT64_MAX), JobStatus::Pending);
}

TEST(Paced, SpacesJobsByTheRate) {
    EXPECT_EQ(paced(kHour, 0, 10), kHour);
    EXPECT_EQ(paced(kHour, 1, 10), kHour + kSecond / 10);
    EXPECT_EQ(paced(kHour, 10, 10), kHour + kSecond);
    EXPECT_EQ(paced(kHour, 3, 0.5), kHour + 6 * kSecond);
    EXPECT_EQ(paced(-kHour, 1, 3), -kHour + 333333);
    EXPECT_EQ(paced(kHour, 1000000, 1e9), kHour + 1000);
}

TEST(Paced, MakesAllJobsDueAtOnceWithoutARate) {
    for (const double rate : {0.0, -1.0, -1e300}) EXPECT_EQ(paced(kHour, 1000000, rate), kHour);
    EXPECT_EQ(paced(kHour, 5, std::nan("")), kHour);
    EXPECT_EQ(paced(kHour, 5, HUGE_VAL), kHour);
}

TEST(Paced, StaysInOrderAndWithinTheTimeRange) {
    for (const double rate : {5e-324, 1e-300, 1e-9, 0.001, 1.0, 7.0, 1e6, 1e308}) {
        Micros last = kHour;
        for (std::int64_t n = 0; n < (INT64_C(1) << 60); n = n * 3 + 1) {
            const Micros at = paced(kHour, n, rate);
            ASSERT_GE(at, last) << n << " at " << rate;
            ASSERT_LE(at, kLatest);
            last = at;
        }
    }
    EXPECT_EQ(paced(kHour, 1, 5e-324), kLatest);
    EXPECT_EQ(paced(kLatest, 1, 1), kLatest);
}

}  // namespace
}  // namespace jobq::core
