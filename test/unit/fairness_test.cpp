// Compares the orders of queues with priority_ageing or round_robin with brute force.
#include "core/fairness.h"
#include "hash_key.h"
#include "core/queue_settings.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace jobq::core {
namespace {

TEST(Ageing, EachIntervalOfWaitingIsOneStepOfPriority) {
    constexpr Micros minute = kMinute;
    const ClaimKey urgent = {10 * minute, 1, 0};
    EXPECT_TRUE(aged_before(urgent, {10 * minute, 2, 1}, minute));
    EXPECT_TRUE(aged_before(urgent, {5 * minute + 1, 2, 5}, minute));
    EXPECT_FALSE(aged_before(urgent, {5 * minute - 1, 2, 5}, minute));
}

TEST(Ageing, TiesAreBrokenByPriorityThenId) {
    EXPECT_TRUE(aged_before({kMinute, 9, 0}, {0, 1, 1}, kMinute));
    EXPECT_FALSE(aged_before({0, 1, 1}, {kMinute, 9, 0}, kMinute));
    EXPECT_TRUE(aged_before({0, 1, 1}, {0, 2, 1}, kMinute));
}

TEST(Ageing, NothingOverflows) {
    constexpr Micros kLongest = setting_of(SettingNumber::priority_ageing).highest;
    const ClaimKey early = {INT64_MIN, INT64_MIN, INT16_MIN}, late = {INT64_MAX, INT64_MAX, INT16_MAX};
    EXPECT_TRUE(aged_before(early, late, kLongest));
    EXPECT_FALSE(aged_before(late, early, kLongest));
    EXPECT_EQ(aged_limit(INT16_MIN, late, kLongest), (ClaimKey{INT64_MAX, INT64_MAX, INT16_MIN}));
    EXPECT_EQ(aged_limit(INT16_MAX, early, kLongest), (ClaimKey{INT64_MIN, INT64_MIN, INT16_MAX}));
}

// For every key of its priority, the limit gives the same answer as a comparison.
TEST(Ageing, TheLimitMatchesTheOrder) {
    std::mt19937_64 random(7);
    std::uniform_int_distribution<int> moments(0, 40), ids(1, 5), priorities(-3, 3);
    for (int n = 0; n < 200000; n++) {
        const ClaimKey a = {moments(random), ids(random), static_cast<std::int16_t>(priorities(random))};
        const ClaimKey b = {moments(random), ids(random), static_cast<std::int16_t>(priorities(random))};
        if (a == b) continue;
        EXPECT_EQ(a <= aged_limit(a.priority, b, 7), aged_before(a, b, 7));
    }
}

// Merging the priorities by their heads, as a claim does, gives the order of all jobs.
TEST(Ageing, MergedHeadsAreInOrder) {
    std::mt19937_64 random(11);
    std::uniform_int_distribution<int> moments(0, 1000), priorities(-5, 5);
    std::vector<ClaimKey> jobs;
    for (int id = 1; id <= 500; id++)
        jobs.push_back({moments(random), id, static_cast<std::int16_t>(priorities(random))});
    const auto before = [](const ClaimKey &a, const ClaimKey &b) { return aged_before(a, b, 30); };
    std::vector<ClaimKey> wanted = jobs;
    std::sort(wanted.begin(), wanted.end(), before);

    std::sort(jobs.begin(), jobs.end());
    std::vector<ClaimKey> merged;
    while (!jobs.empty()) {
        std::vector<ClaimKey> heads;
        for (const ClaimKey &job : jobs)
            if (heads.empty() || heads.back().priority != job.priority) heads.push_back(job);
        const ClaimKey first = *std::min_element(heads.begin(), heads.end(), before);
        merged.push_back(first);
        jobs.erase(std::find(jobs.begin(), jobs.end(), first));
    }
    EXPECT_EQ(merged, wanted);
}

TEST(RoundRobinHash, HasTheStoredValue) {
    EXPECT_EQ(round_robin_hash(kTestSecret, ""), 4959651686087669542);
    EXPECT_EQ(round_robin_hash(kTestSecret, "tenant 1"), round_robin_hash(kTestSecret, "tenant 1"));
}

TEST(RoundRobinHash, DistinguishesKeysAndIsNeverNegative) {
    std::set<std::int64_t> found;
    for (int n = 0; n < 100000; n++) found.insert(round_robin_hash(kTestSecret, "tenant " + std::to_string(n)));
    EXPECT_EQ(found.size(), 100000U);
    EXPECT_GT(*found.begin(), kBeforeFirstRoundRobinKey);
}

// Keys with these numbers of jobs; returns the order in which rounds over the keys take the jobs.
struct Key {
    std::int64_t hash;
    int jobs;
};

std::vector<std::int64_t> take_all(std::vector<Key> keys, std::int64_t at) {
    std::vector<std::int64_t> taken;
    Round round = begin_round(at);
    for (;;) {
        const Key *next = nullptr;
        for (const Key &key : keys)
            if (key.hash > round.at && next == nullptr) next = &key;
        if (next == nullptr) next = keys.data();
        if (keys.empty() || !go_to(&round, next->hash)) return taken;
        Key *key = &keys[static_cast<std::size_t>(next - keys.data())];
        if (key->jobs == 0) continue;
        key->jobs--;
        taken.push_back(key->hash);
        found_job(&round);
    }
}

TEST(Round, EachKeyGetsAJobInTurn) {
    const std::vector<std::int64_t> expected = {20, 30, 10, 20, 30, 10, 30, 30};
    EXPECT_EQ(take_all({{10, 2}, {20, 2}, {30, 4}}, 10), expected);
}

TEST(Round, EndsWhenNoKeyHasAJob) {
    EXPECT_TRUE(take_all({}, 5).empty());
    EXPECT_TRUE(take_all({{10, 0}}, 5).empty());
    EXPECT_TRUE(take_all({{10, 0}}, 10).empty());
    EXPECT_TRUE(take_all({{10, 0}, {20, 0}, {30, 0}}, 20).empty());
}

TEST(Round, StartsAnywhere) {
    for (const std::int64_t at : {kBeforeFirstRoundRobinKey, std::int64_t{0}, std::int64_t{10}, std::int64_t{15},
                                  std::int64_t{30}, std::int64_t{31}, INT64_MAX}) {
        std::vector<std::int64_t> taken = take_all({{10, 1}, {20, 0}, {30, 3}}, at);
        std::sort(taken.begin(), taken.end());
        EXPECT_EQ(taken, (std::vector<std::int64_t>{10, 30, 30, 30})) << "from " << at;
    }
}

// Whatever the backlogs: as long as a key has jobs, no other key gets two jobs between two of its own.
TEST(Round, NoKeyIsSkippedTwice) {
    std::mt19937 random(3);
    for (int n = 0; n < 200; n++) {
        std::vector<Key> keys;
        std::int64_t hash = 0;
        std::size_t total = 0;
        for (int k = 0; k < 8; k++) {
            hash += 1 + random() % 5;
            keys.push_back({hash, static_cast<int>(random() % 6)});
            total += static_cast<std::size_t>(keys.back().jobs);
        }
        const std::vector<std::int64_t> taken = take_all(keys, static_cast<std::int64_t>(random() % 40));
        ASSERT_EQ(taken.size(), total);
        for (const Key &key : keys) {
            std::multiset<std::int64_t> since;
            int left = key.jobs;
            for (const std::int64_t one : taken) {
                if (left == 0) break;
                if (one == key.hash) {
                    left--;
                    since.clear();
                } else {
                    since.insert(one);
                    EXPECT_LE(since.count(one), 1U);
                }
            }
        }
    }
}

}  // namespace
}  // namespace jobq::core
