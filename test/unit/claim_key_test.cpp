// Tests the order of claim keys and the next key: across ids, times, and priorities, up to the last key.
#include "core/claim_key.h"
#include "print_claim_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

namespace jobq::core {

namespace {

ClaimKey key(std::int16_t priority, std::int64_t run_at, std::int64_t id) { return {run_at, id, priority}; }

TEST(ClaimKey, OrdersByPriorityThenTimeThenId) {
    const std::vector<ClaimKey> ordered = {
        kFirstKey,     key(-5, 100, 9), key(-5, 200, 1), key(0, INT64_MIN, 7), key(0, -1, 8),
        key(0, 50, 3), key(0, 50, 4),   key(1, 0, 1),    key(32767, 0, 0),     kLastKey,
    };
    for (std::size_t a = 0; a < ordered.size(); a++) {
        for (std::size_t b = 0; b < ordered.size(); b++) {
            EXPECT_EQ(ordered[a] < ordered[b], a < b) << a << " " << b;
            EXPECT_EQ(ordered[a] == ordered[b], a == b) << a << " " << b;
            EXPECT_EQ(ordered[a] <= ordered[b], a <= b) << a << " " << b;
        }
    }
}

TEST(ClaimKey, OrdersLikeATuple) {
    std::mt19937 random(1);
    const auto small = [&] { return static_cast<int>(random() % 3) - 1; };
    for (int i = 0; i < 1000; i++) {
        const ClaimKey a = key(static_cast<std::int16_t>(small()), small(), small());
        const ClaimKey b = key(static_cast<std::int16_t>(small()), small(), small());
        const auto tuple = [](const ClaimKey &k) { return std::make_tuple(k.priority, k.run_at, k.id); };
        EXPECT_EQ(a < b, tuple(a) < tuple(b));
        EXPECT_EQ(a == b, tuple(a) == tuple(b));
    }
}

TEST(NextKey, IsTheNextId) { EXPECT_EQ(next_key(key(3, 100, 7)), key(3, 100, 8)); }

TEST(NextKey, AfterTheLastIdIsTheNextTime) {
    EXPECT_EQ(next_key(key(3, 100, INT64_MAX)), key(3, 101, INT64_MIN));
    EXPECT_EQ(next_key(key(3, -1, INT64_MAX)), key(3, 0, INT64_MIN));
}

TEST(NextKey, AfterTheLastTimeIsTheNextPriority) {
    EXPECT_EQ(next_key(key(3, INT64_MAX, INT64_MAX)), key(4, INT64_MIN, INT64_MIN));
    EXPECT_EQ(next_key(key(-1, INT64_MAX, INT64_MAX)), key(0, INT64_MIN, INT64_MIN));
    EXPECT_EQ(next_key(key(INT16_MIN, INT64_MAX, INT64_MAX)), key(INT16_MIN + 1, INT64_MIN, INT64_MIN));
}

TEST(NextKey, OfTheLastKeyIsTheSameKey) {
    EXPECT_EQ(next_key(kLastKey), kLastKey);
    EXPECT_EQ(next_key(key(INT16_MAX, INT64_MAX, INT64_MAX - 1)), kLastKey);
}

TEST(NextKey, IsTheSmallestGreaterKey) {
    const std::vector<ClaimKey> keys = {
        kFirstKey, key(0, 0, 0), key(0, 5, INT64_MAX), key(7, INT64_MAX, INT64_MAX), key(INT16_MAX, INT64_MAX, 0),
    };
    for (const ClaimKey &one : keys) {
        EXPECT_LT(one, next_key(one));
        for (const ClaimKey &other : keys) EXPECT_FALSE(one < other && other < next_key(one));
    }
}

}  // namespace
}  // namespace jobq::core
