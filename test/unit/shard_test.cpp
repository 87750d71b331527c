// Tests which ids a shard assigns.
#include "row/shard_policy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace jobq::core {
namespace {

TEST(Shard, IsANumberBelow1024) {
    EXPECT_TRUE(is_shard(0));
    EXPECT_TRUE(is_shard(1023));
    EXPECT_FALSE(is_shard(-1));
    EXPECT_FALSE(is_shard(1024));
}

TEST(Shard, IsEncodedInItsIds) {
    for (int shard : {0, 1, 511, 1023}) {
        std::int64_t id = 0;
        for (int n = 0; n < 3; n++) {
            const std::int64_t next = next_id_of(shard, id);
            EXPECT_EQ(shard_of(next), shard);
            EXPECT_GT(next, id);
            EXPECT_GE(next, kShards);
            id = next;
        }
    }
}

TEST(Shard, ContinuesAfterTheLastId) {
    EXPECT_EQ(next_id_of(0, 0), 1024);
    EXPECT_EQ(next_id_of(0, 1024), 2048);
    EXPECT_EQ(next_id_of(7, 0), 1031);
    EXPECT_EQ(next_id_of(7, 1030), 1031);
    EXPECT_EQ(next_id_of(7, 1031), 2055);
    EXPECT_EQ(next_id_of(1023, 1023), 2047);
}

TEST(Shard, OfAnyIdIsAValidShard) {
    EXPECT_TRUE(is_shard(shard_of(-1)));
    EXPECT_TRUE(is_shard(shard_of(std::numeric_limits<std::int64_t>::min())));
    EXPECT_EQ(shard_of(5), 5);
}

TEST(Shard, HasIdsThatAreExactInJavaScript) { EXPECT_EQ(kLastShardedId, 9007199254740991); }

}  // namespace
}  // namespace jobq::core
