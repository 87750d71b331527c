// Tests the conversion of the server's intervals to one number.
#include "core/interval.h"

#include <gtest/gtest.h>

#include <climits>

namespace jobq::core {
namespace {

TEST(SpanMicros, AddsTheThreeParts) {
    EXPECT_EQ(span_micros(0, 0, 0), 0);
    EXPECT_EQ(span_micros(0, 0, kSecond), kSecond);
    EXPECT_EQ(span_micros(0, 1, 0), kDay);
    EXPECT_EQ(span_micros(1, 0, 0), 30 * kDay);
    EXPECT_EQ(span_micros(1, -30, -5), -5);
    EXPECT_EQ(span_micros(-1, 31, 7), kDay + 7);
}

TEST(SpanMicros, Saturates) {
    EXPECT_EQ(span_micros(INT_MAX, INT_MAX, INT64_MAX), kLatest);
    EXPECT_EQ(span_micros(INT_MIN, INT_MIN, INT64_MIN), -kLatest);
    EXPECT_EQ(span_micros(0, 0, INT64_MAX), kLatest);
    EXPECT_EQ(span_micros(0, 0, INT64_MIN), -kLatest);
    EXPECT_EQ(span_micros(0, -1, INT64_MAX), INT64_MAX - kDay < kLatest ? INT64_MAX - kDay : kLatest);
}

}  // namespace
}  // namespace jobq::core
