// Tests how many log lines an attempt can store.
#include "finish/log_lines_policy.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

TEST(StoreLine, CountsLinesAndBytes) {
    StoredLines stored = {};
    EXPECT_TRUE(store_line(&stored, 10));
    EXPECT_TRUE(store_line(&stored, 0));
    EXPECT_EQ(stored.lines, 2);
    EXPECT_EQ(stored.bytes, 10);
}

TEST(StoreLine, LimitsTheLines) {
    StoredLines stored = {kMaxLogLines - 1, 0, false};
    EXPECT_TRUE(store_line(&stored, 1));
    EXPECT_FALSE(store_line(&stored, 1));
    EXPECT_EQ(stored.lines, kMaxLogLines);
}

TEST(StoreLine, LimitsTheBytes) {
    StoredLines stored = {1, kMaxLogBytes - 5, false};
    EXPECT_TRUE(store_line(&stored, 5));
    EXPECT_FALSE(store_line(&stored, 1));
    EXPECT_EQ(stored.bytes, kMaxLogBytes);
}

TEST(StoreLine, DropsAllLinesAfterADroppedLine) {
    StoredLines stored = {1, kMaxLogBytes - 5, false};
    EXPECT_FALSE(store_line(&stored, 6));
    EXPECT_FALSE(store_line(&stored, 1));
    EXPECT_EQ(stored.lines, 1);
}

}  // namespace
}  // namespace jobq::core
