// Tests the admission to a queue with a max_depth.
#include "core/backpressure.h"

#include <gtest/gtest.h>

#include <climits>

namespace jobq::core {
namespace {

constexpr FullPolicy kPolicies[] = {FullPolicy::Reject, FullPolicy::DropOldest};

TEST(Admit, AdmitsJobsThatFit) {
    for (const FullPolicy policy : kPolicies) {
        for (std::int64_t depth = 0; depth <= 7; depth++) {
            const Admission admission = admit(depth, 3, 10, policy);
            EXPECT_TRUE(admission.admitted) << depth;
            EXPECT_EQ(admission.drop, 0) << depth;
            EXPECT_EQ(admission.needed, 0) << depth;
        }
    }
}

TEST(Admit, RejectsJobsThatDoNotFit) {
    EXPECT_TRUE(admit(9, 1, 10, FullPolicy::Reject).admitted);
    EXPECT_FALSE(admit(10, 1, 10, FullPolicy::Reject).admitted);
    EXPECT_FALSE(admit(8, 3, 10, FullPolicy::Reject).admitted);
    EXPECT_FALSE(admit(1000, 1, 10, FullPolicy::Reject).admitted);
}

TEST(Admit, DropsTheExcess) {
    const Admission one = admit(10, 1, 10, FullPolicy::DropOldest);
    EXPECT_TRUE(one.admitted);
    EXPECT_EQ(one.drop, 1);
    EXPECT_EQ(one.needed, 1);
    const Admission some = admit(8, 5, 10, FullPolicy::DropOldest);
    EXPECT_EQ(some.drop, 3);
    EXPECT_EQ(some.needed, 3);
    const Admission all = admit(10, 10, 10, FullPolicy::DropOldest);
    EXPECT_EQ(all.drop, 10);
}

TEST(Admit, DropsALimitedNumberOfExtraJobsPerCall) {
    const Admission admission = admit(1000000, 5, 10, FullPolicy::DropOldest);
    EXPECT_TRUE(admission.admitted);
    EXPECT_EQ(admission.drop, 5 + kMaxExtraDrops);
    EXPECT_EQ(admission.needed, 5);
    std::int64_t depth = 1000;
    int calls = 0;
    for (; depth > 10 && calls < 1000; calls++) depth += 1 - admit(depth, 1, 10, FullPolicy::DropOldest).drop;
    EXPECT_EQ(depth, 10);
    EXPECT_LE(calls, 11);
}

TEST(Admit, NeverAdmitsMoreJobsThanMaxDepth) {
    for (const FullPolicy policy : kPolicies) {
        EXPECT_TRUE(admit(0, 10, 10, policy).admitted);
        EXPECT_FALSE(admit(0, 11, 10, policy).admitted);
        EXPECT_FALSE(admit(-5, 11, 10, policy).admitted);
    }
}

TEST(Admit, TreatsANegativeDepthAsZero) {
    EXPECT_TRUE(admit(-3, 10, 10, FullPolicy::Reject).admitted);
    EXPECT_EQ(admit(INT64_MIN, 10, 10, FullPolicy::DropOldest).drop, 0);
}

TEST(Admit, DoesNotOverflow) {
    const Admission admission = admit(INT64_MAX, 1, 1, FullPolicy::DropOldest);
    EXPECT_TRUE(admission.admitted);
    EXPECT_EQ(admission.drop, 1 + kMaxExtraDrops);
    EXPECT_FALSE(admit(INT64_MAX, 1000000, INT32_MAX, FullPolicy::Reject).admitted);
}

}  // namespace
}  // namespace jobq::core
