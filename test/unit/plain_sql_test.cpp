// Tests what a change with plain SQL does to a job in each status.
#include "places.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

TEST(PlainSql, KeepsAWaitButMakesNone) {
    const Life waits = job_in(kAwaiting);
    const Life same = changed_by_hand(waits, {GroupPlace::None, false, 0, 0}, kNow);
    EXPECT_TRUE(awaits(same));
    EXPECT_TRUE(same.due);
    Life stopped = job_in(kRunning);
    stopped.status = JobStatus::Blocked;
    EXPECT_FALSE(changed_by_hand(stopped, {GroupPlace::None, false, 0, 0}, kNow).must_end_at.has_value());
}

TEST(PlainSql, LeavesEveryStatusConsistent) {
    for (int from = 0; from < kPlaces; from++) {
        for (int to = 0; to < kJobStatusCount; to++) {
            Life written = job_in(static_cast<Place>(from));
            written.status = static_cast<JobStatus>(to);
            const ByHand facts = {GroupPlace::None, false, kMinute, 0};
            EXPECT_EQ(broken_law(changed_by_hand(written, facts, kNow)), "") << from << " to " << to;
            EXPECT_EQ(broken_law(inserted_by_hand(written, facts, kNow)), "") << from << " to " << to;
            // A running job is always marked, whatever the change says, because no other process examines it.
            written.rescue_indexed = !written.rescue_indexed;
            EXPECT_EQ(changed_by_hand(written, facts, kNow).rescue_indexed, written.status == JobStatus::Processing)
                << from << " to " << to;
        }
    }
}

TEST(PlainSql, MakesDueJobsPendingAndKeepsGroupPlaces) {
    Life written = job_in(kScheduled);
    written.run_at = kNow;
    EXPECT_EQ(changed_by_hand(written, {GroupPlace::None, false, 0, 0}, kNow).status, JobStatus::Pending);
    written.group = kGroup;
    const Life in_line = changed_by_hand(written, {GroupPlace::Waiting, false, 0, 0}, kNow);
    EXPECT_EQ(in_line.status, JobStatus::Blocked);
    EXPECT_EQ(in_line.group_waiting, kGroup);
    EXPECT_EQ(changed_by_hand(written, {GroupPlace::Active, false, 0, 0}, kNow).group_active, kGroup);
    const Life blocked = job_in(kBlocked);
    EXPECT_EQ(changed_by_hand(blocked, {GroupPlace::None, false, 0, 0}, kNow).status, JobStatus::Blocked);
    EXPECT_EQ(changed_by_hand(blocked, {GroupPlace::None, true, 0, 0}, kNow).status, JobStatus::Pending);
}

TEST(PlainSql, KeepsTheTimeoutOfALease) {
    const ByHand facts = {GroupPlace::None, false, 2 * kSecond, kHour};
    // NULL means the default.
    const Life claimed = job_in(kRunning);
    EXPECT_FALSE(changed_by_hand(claimed, facts, kNow).lease_timeout.has_value());
    Life unleased = claimed;
    unleased.lease.reset();
    const Life settled = changed_by_hand(unleased, facts, kNow);
    EXPECT_EQ(settled.lease_timeout, 2 * kSecond);
    EXPECT_EQ(settled.must_end_at, *claimed.started_at + kHour);
    // A new max_runtime of the queue does not apply to a running job either.
    ByHand runs_on = facts;
    runs_on.keeps_end = true;
    EXPECT_FALSE(changed_by_hand(claimed, runs_on, kNow).must_end_at.has_value());
    runs_on.end = kNow + kMinute;
    EXPECT_EQ(changed_by_hand(claimed, runs_on, kNow).must_end_at, kNow + kMinute);
    // Without a lease, no executor runs the job, so it gets a heartbeat timeout.
    unleased.lease_timeout = kEndlessLease;
    EXPECT_EQ(changed_by_hand(unleased, facts, kNow).lease_timeout, 2 * kSecond);
    Life of_executor = claimed;
    of_executor.lease_timeout = kEndlessLease;
    EXPECT_EQ(changed_by_hand(of_executor, facts, kNow).lease_timeout, kEndlessLease);
    EXPECT_EQ(deadline_of(of_executor), INT64_MIN);
    EXPECT_EQ(inserted_by_hand(claimed, facts, kNow).must_end_at, claimed.must_end_at);
}

}  // namespace
}  // namespace jobq::core
