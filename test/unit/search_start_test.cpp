// Tests a search that continues where the last one ended, and that starts over after a pause.
#include "core/search_start.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

TEST(SearchStart, ContinuesAtTheFirstRowOfTheLastSearch) {
    SearchStart start(500);
    EXPECT_EQ(start.begin(true, 1000), INT64_MIN);
    start.end(7, 1010);
    EXPECT_EQ(start.begin(true, 1020), 7);
    start.end(9, 1021);
    EXPECT_EQ(start.begin(true, 1022), 9);
}

TEST(SearchStart, StartsOverAfterAPauseInProportionToTheCostOfAFullSearch) {
    SearchStart start(500);
    start.begin(true, 1000);
    start.end(7, 1010);
    EXPECT_EQ(start.begin(true, 1010 + 500 * 10 - 1), 7);
    start.end(8, 1010 + 500 * 10 - 1);
    EXPECT_EQ(start.begin(true, 1010 + 500 * 10), INT64_MIN);
}

TEST(SearchStart, StartsOverIfTheClockStepsBack) {
    SearchStart start(500);
    start.begin(true, 1000);
    start.end(7, 1010);
    EXPECT_EQ(start.begin(true, 500), INT64_MIN);
}

TEST(SearchStart, AlwaysStartsOverForCallersThatDoNotRemember) {
    SearchStart start(500);
    start.begin(false, 1000);
    start.end(7, 1010);
    EXPECT_EQ(start.begin(false, 1011), INT64_MIN);
}

}  // namespace
}  // namespace jobq::core
