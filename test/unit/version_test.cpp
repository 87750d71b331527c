#include "core/version.h"

#include <gtest/gtest.h>

using jobq::core::compare_versions;

TEST(CompareVersions, ComparesNumbersNotText) {
    EXPECT_EQ(compare_versions("1.0.0", "1.0.0"), 0);
    EXPECT_LT(compare_versions("1.9.0", "1.10.0"), 0);
    EXPECT_GT(compare_versions("2.0.0", "1.10.7"), 0);
    EXPECT_LT(compare_versions("1.0.0", "1.0.1"), 0);
}

TEST(CompareVersions, TreatsMissingPartsAsZero) {
    EXPECT_EQ(compare_versions("1", "1.0.0"), 0);
    EXPECT_LT(compare_versions("1", "1.0.1"), 0);
    EXPECT_LT(compare_versions("", "0.1"), 0);
}

TEST(CompareVersions, AcceptsInvalidVersions) {
    EXPECT_LT(compare_versions("garbage", "1.0.0"), 0);
    EXPECT_EQ(compare_versions("1.0.0-rc1", "1.0.0"), 0);
    EXPECT_EQ(compare_versions("...", ""), 0);
    EXPECT_GT(compare_versions("99999999999999999999", "1"), 0);
}
