// core/limit: slots and their numbers, the slots that remain when a limit is lowered, and token buckets.
#include "core/limit.h"

#include "hash_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace jobq::core {
namespace {

TEST(SlotNumbers, AreInTheLowerBits) {
    const std::int64_t limit = queue_limit_hash(kTestSecret, "emails");
    for (const std::int32_t number : {1, 2, kMaxRunning, kHighestNumber}) {
        EXPECT_EQ(limit_of_slot(slot_of(limit, number)), limit);
        EXPECT_EQ(number_of_slot(slot_of(limit, number)), number);
    }
    EXPECT_EQ(limit_of_slot(limit), limit);
}

TEST(LimitIds, HaveTheStoredValues) {
    // Computed by an independent implementation. These numbers are stored in tables, so they must never change.
    EXPECT_EQ(queue_limit_hash(kTestSecret, "emails"), -4600722717088415744);
    EXPECT_EQ(key_limit_hash(kTestSecret, "emails", "acme"), -5224137487775956992);
}

TEST(LimitIds, DistinguishQueuesKeysAndKinds) {
    std::set<std::int64_t> ids;
    for (int q = 0; q < 100; q++) {
        const std::string queue = "q" + std::to_string(q);
        ids.insert(queue_limit_hash(kTestSecret, queue));
        for (int k = 0; k < 100; k++) ids.insert(key_limit_hash(kTestSecret, queue, std::to_string(k)));
        for (int k = 0; k < 100; k++) ids.insert(kind_limit_hash(kTestSecret, queue, std::to_string(k)));
    }
    EXPECT_EQ(ids.size(), 100u * 201u);
    EXPECT_NE(key_limit_hash(kTestSecret, "ab", "c"), key_limit_hash(kTestSecret, "a", "bc"));
    EXPECT_NE(key_limit_hash(kTestSecret, "a", ""), queue_limit_hash(kTestSecret, "a"));
    EXPECT_NE(kind_limit_hash(kTestSecret, "a", ""), queue_limit_hash(kTestSecret, "a"));
    EXPECT_NE(named_limit_hash(kTestSecret, "a"), queue_limit_hash(kTestSecret, "a"));
    EXPECT_NE(named_limit_hash(kTestSecret, "a"), named_limit_hash(kTestSecret, "b"));
}

std::int32_t usable(std::vector<std::int32_t> taken, std::int32_t max_running) {
    return usable_numbers(taken.data(), static_cast<int>(taken.size()), max_running);
}

TEST(UsableNumbers, AreAllSlotsIfNoHigherOneIsHeld) {
    EXPECT_EQ(usable({}, 5), 5);
    EXPECT_EQ(usable({1, 3, 5}, 5), 5);
    EXPECT_EQ(usable({}, 0), 0);
}

TEST(UsableNumbers, AreReducedByHigherSlotsThatAreHeld) {
    EXPECT_EQ(usable({7}, 5), 4);
    EXPECT_EQ(usable({7, 9}, 5), 3);
    EXPECT_EQ(usable({6, 7, 8, 9, 10}, 5), 0);
    EXPECT_EQ(usable({1, 6, 7, 8, 9, 10}, 5), 0);
    // 5 holds a number that can no longer be used, so it counts in addition.
    EXPECT_EQ(usable({5, 7}, 5), 3);
    EXPECT_EQ(usable({4, 5, 7}, 5), 2);
}

TEST(UsableNumbers, NeverExceedTheLimit) {
    std::mt19937 random(1);
    for (int round = 0; round < 20000; round++) {
        const auto max_running = static_cast<std::int32_t>(random() % 12);
        std::set<std::int32_t> held;
        for (std::uint32_t i = random() % 15; i > 0; i--) held.insert(static_cast<std::int32_t>(1 + random() % 20));
        const std::vector<std::int32_t> taken(held.begin(), held.end());
        const std::int32_t left = usable(taken, max_running);
        std::set<std::int32_t> then = held;
        for (std::int32_t number = 1; number <= left; number++) then.insert(number);
        if (then.size() > held.size()) {
            EXPECT_LE(then.size(), static_cast<std::size_t>(max_running));
        }
        // And every job that fits is admitted.
        if (held.empty() || *held.rbegin() <= max_running) {
            EXPECT_EQ(left, max_running);
        }
    }
}

TEST(RateIntervals, AreRoundedDown) {
    EXPECT_EQ(make_rate(10, kSecond).interval, 100000);
    EXPECT_EQ(make_rate(3, kSecond).interval, 333334);
    EXPECT_EQ(make_rate(1, kDay).interval, kDay);
    EXPECT_EQ(make_rate(1000000, kSecond).interval, 1);
    EXPECT_EQ(make_rate(1000001, kSecond).interval, 0);
    EXPECT_EQ(make_rate(0, kSecond).interval, 0);
}

TEST(TokenBuckets, FillUpAndGiveTokensOneByOne) {
    const Rate rate = make_rate(4, kSecond);
    Bucket bucket = empty_bucket(rate, 1000);
    EXPECT_EQ(tokens_in(bucket, rate, 1000), 0);
    EXPECT_FALSE(take_token(&bucket, rate, 1000));
    EXPECT_EQ(next_token(bucket, rate, 1000), 1000 + kSecond / 4);
    EXPECT_FALSE(take_token(&bucket, rate, 1000 + kSecond / 4 - 1));
    EXPECT_TRUE(take_token(&bucket, rate, 1000 + kSecond / 4));
    EXPECT_FALSE(take_token(&bucket, rate, 1000 + kSecond / 4));
    const Micros full = 100 * kSecond;
    EXPECT_EQ(tokens_in(bucket, rate, full), 4);
    EXPECT_EQ(next_token(bucket, rate, full), full);
    for (int i = 0; i < 4; i++) EXPECT_TRUE(take_token(&bucket, rate, full));
    EXPECT_FALSE(take_token(&bucket, rate, full));
    return_token(&bucket, rate);
    EXPECT_EQ(tokens_in(bucket, rate, full), 1);
}

TEST(TokenBuckets, NeverGiveMoreTokensThanTheRate) {
    std::mt19937 random(2);
    for (const std::int32_t allowed : {1, 3, 7, 100}) {
        const Rate rate = make_rate(allowed, kSecond);
        Bucket bucket = empty_bucket(rate, 0);
        std::vector<Micros> taken;
        for (Micros now = 0; now < 60 * kSecond; now += static_cast<Micros>(random() % 50000))
            while (random() % 4 != 0 && take_token(&bucket, rate, now)) taken.push_back(now);
        ASSERT_FALSE(taken.empty());
        // From any start: the contents of the bucket plus the tokens that arrive in the meantime.
        for (std::size_t i = 0; i < taken.size(); i++)
            for (std::size_t j = i; j < taken.size() && j < i + 500; j++) {
                const Micros span = taken[j] - taken[i];
                EXPECT_LE(static_cast<Micros>(j - i + 1), allowed + span / rate.interval);
            }
    }
}

TEST(TokenBuckets, SurviveAStepOfTheClock) {
    const Rate rate = make_rate(10, kSecond);
    Bucket bucket = empty_bucket(rate, kDay);
    // Back by a day: the bucket is empty, and not a day in debt.
    EXPECT_EQ(tokens_in(bucket, rate, 0), 0);
    EXPECT_EQ(next_token(bucket, rate, 0), kSecond / 10);
    // Forward by a year: the bucket is full, and not more.
    EXPECT_EQ(tokens_in(bucket, rate, 365 * kDay), 10);
}

TEST(ForgottenBuckets, DoNotAffectOtherQueues) {
    ForgottenBuckets forgotten = {};
    forget_bucket(&forgotten, 1, 10, {365 * kDay}, 0);
    forget_bucket(&forgotten, 1, 10, {kDay}, 0);
    EXPECT_EQ(forgotten_until(forgotten, 1, 10), 365 * kDay);
    EXPECT_EQ(forgotten_until(forgotten, 1, 11), 0);
    EXPECT_EQ(forgotten_until(forgotten, 2, 10), 0);
    // More queues than there is room for: the shortest times apply to all queues of the database.
    for (int queue = 11; queue < 40; queue++) forget_bucket(&forgotten, 1, queue, {kHour - queue * kSecond}, 0);
    EXPECT_EQ(forgotten_until(forgotten, 1, 10), 365 * kDay);
    EXPECT_EQ(forgotten_until(forgotten, 1, 11), kHour - 11 * kSecond);
    EXPECT_EQ(forgotten_until(forgotten, 1, 39), kHour - 17 * kSecond);
    EXPECT_EQ(forgotten_until(forgotten, 1, 99), kHour - 17 * kSecond);
    EXPECT_EQ(forgotten_until(forgotten, 3, 1), 0) << "another database is not affected";
}

TEST(ForgottenBuckets, OfOneDatabaseLeaveRoomForOthers) {
    ForgottenBuckets forgotten = {};
    for (int database = 2; database <= 4; database++) forget_bucket(&forgotten, database, 10, {kMinute}, 0);
    for (int queue = 1; queue < 100; queue++) forget_bucket(&forgotten, 1, queue, {kDay + queue}, 0);
    for (int database = 2; database <= 4; database++) {
        EXPECT_EQ(forgotten_until(forgotten, database, 10), kMinute);
        EXPECT_EQ(forgotten_until(forgotten, database, 11), 0);
    }
    // More databases than there is room for.
    for (int database = 5; database <= 20; database++) forget_bucket(&forgotten, database, 10, {kHour - database}, 0);
    for (int database = 5; database <= 20; database++)
        EXPECT_GE(forgotten_until(forgotten, database, 10), kHour - database);
    EXPECT_LT(forgotten_until(forgotten, 99, 10), kHour);
}

TEST(ForgottenBuckets, AreEvictedWhenTheBucketIsFullAgain) {
    ForgottenBuckets forgotten = {};
    for (int queue = 1; queue <= 8; queue++) forget_bucket(&forgotten, 1, queue, {kMinute}, 0);
    for (int queue = 11; queue <= 18; queue++) forget_bucket(&forgotten, 1, queue, {kHour}, kMinute);
    EXPECT_EQ(forgotten_until(forgotten, 1, 11), kHour);
    EXPECT_EQ(forgotten_until(forgotten, 1, 19), kMinute);
}

TEST(ForgottenBuckets, AreKeptIfTheClockIsSetForward) {
    ForgottenBuckets forgotten = {};
    for (int queue = 1; queue <= 8; queue++) forget_bucket(&forgotten, 1, queue, {kMinute}, 0);
    for (int queue = 11; queue <= 18; queue++) forget_bucket(&forgotten, 1, queue, {2 * kHour}, kHour);
    for (int queue = 1; queue <= 8; queue++) EXPECT_GE(forgotten_until(forgotten, 1, queue), kMinute);
}

TEST(ForgottenBuckets, AreNeverFullerThanTheyWere) {
    std::mt19937 random(3);
    ForgottenBuckets forgotten = {};
    std::map<std::pair<std::uint32_t, std::int64_t>, Micros> latest;
    for (Micros now = 0; now < 5000; now++) {
        // Sometimes more databases than there are entries.
        const std::uint32_t database = 1 + random() % (now < 1000 ? 2 : 12);
        const std::int64_t queue = random() % 30;
        const Micros full_at = now + static_cast<Micros>(random() % 1000);
        forget_bucket(&forgotten, database, queue, {full_at}, now);
        latest[{database, queue}] = std::max(latest[{database, queue}], full_at);
        for (const auto &[known, at] : latest)
            ASSERT_TRUE(at <= now || forgotten_until(forgotten, known.first, known.second) >= at);
    }
}

}  // namespace
}  // namespace jobq::core
