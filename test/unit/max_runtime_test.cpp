// The second clock of a running job.
#include "job/max_runtime_policy.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

TEST(OnMaxRuntime, IsFailOrCancel) {
    OnMaxRuntime choice = OnMaxRuntime::Cancel;
    EXPECT_TRUE(parse_on_max_runtime("fail", &choice));
    EXPECT_EQ(choice, OnMaxRuntime::Fail);
    EXPECT_TRUE(parse_on_max_runtime("cancel", &choice));
    EXPECT_EQ(choice, OnMaxRuntime::Cancel);
}

TEST(OnMaxRuntime, OtherNamesLeaveItAlone) {
    OnMaxRuntime choice = OnMaxRuntime::Cancel;
    for (const char *name : {"", "Fail", "cancel ", "failed", "kill"})
        EXPECT_FALSE(parse_on_max_runtime(name, &choice));
    EXPECT_EQ(choice, OnMaxRuntime::Cancel);
}

TEST(MaxRuntime, IsKeptWithinItsLimits) {
    EXPECT_EQ(bounded_max_runtime(kMinute), kMinute);
    EXPECT_EQ(bounded_max_runtime(kMinMaxRuntime), kMinMaxRuntime);
    EXPECT_EQ(bounded_max_runtime(kMinMaxRuntime - 1), kMinMaxRuntime);
    EXPECT_EQ(bounded_max_runtime(-kLatest), kMinMaxRuntime);
    EXPECT_EQ(bounded_max_runtime(kMaxMaxRuntime + 1), kMaxMaxRuntime);
    EXPECT_EQ(bounded_max_runtime(INT64_MAX), kMaxMaxRuntime);
}

TEST(FirstDeadline, IsThatOfTheClockThatRunsOutFirst) {
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

TEST(AfterOverrun, CancelsTheJobWhereTheQueueWantsThat) {
    EXPECT_EQ(after_overrun(1, 3, OnMaxRuntime::Cancel, false), JobStatus::Cancelled);
    EXPECT_EQ(after_overrun(3, 3, OnMaxRuntime::Cancel, false), JobStatus::Cancelled);
}

TEST(AfterOverrun, CancelsAJobThatWasAskedToStop) {
    EXPECT_EQ(after_overrun(1, 3, OnMaxRuntime::Fail, true), JobStatus::Cancelled);
    EXPECT_EQ(after_overrun(3, 3, OnMaxRuntime::Fail, true), JobStatus::Cancelled);
}

}  // namespace
}  // namespace jobq::core
