// Tests max_runtime, the second clock of a running job.
#include "core/max_runtime.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

TEST(FirstDeadline, IsTheEarlierOfBothClocks) {
    EXPECT_EQ(first_deadline(kMinute, 0), kMinute);
    EXPECT_EQ(first_deadline(kMinute, kSecond), kSecond);
    EXPECT_EQ(first_deadline(kSecond, kMinute), kSecond);
    EXPECT_EQ(first_deadline(kMinute, kMinute), kMinute);
}

TEST(AfterOverrun, FailsTheAttempt) {
    EXPECT_EQ(after_overrun(1, 3, OnMaxRuntime::Fail, false), JobStatus::Scheduled);
    EXPECT_EQ(after_overrun(2, 3, OnMaxRuntime::Fail, false), JobStatus::Scheduled);
    EXPECT_EQ(after_overrun(3, 3, OnMaxRuntime::Fail, false), JobStatus::Failed);
    EXPECT_EQ(after_overrun(4, 3, OnMaxRuntime::Fail, false), JobStatus::Failed);
}

TEST(AfterOverrun, CancelsTheJobIfTheQueueSaysSo) {
    EXPECT_EQ(after_overrun(1, 3, OnMaxRuntime::Cancel, false), JobStatus::Cancelled);
    EXPECT_EQ(after_overrun(3, 3, OnMaxRuntime::Cancel, false), JobStatus::Cancelled);
}

TEST(AfterOverrun, CancelsAJobWithACancelRequest) {
    EXPECT_EQ(after_overrun(1, 3, OnMaxRuntime::Fail, true), JobStatus::Cancelled);
    EXPECT_EQ(after_overrun(3, 3, OnMaxRuntime::Fail, true), JobStatus::Cancelled);
}

}  // namespace
}  // namespace jobq::core
