// core/group: the hash of a group, and the place of a job in its group after a change with plain SQL.
#include "core/group.h"

#include "hash_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace jobq::core {
namespace {

// Computed by an independent implementation. These numbers are stored in tables, so they must never change.
TEST(GroupHash, HasTheStoredValues) {
    EXPECT_EQ(group_hash(kTestSecret, "orders", "customer 1"), 5098043098162520409);
    EXPECT_EQ(group_hash(kTestSecret, "", ""), 5979557570617424754);
}

TEST(GroupHash, DistinguishesQueueAndKey) {
    EXPECT_NE(group_hash(kTestSecret, "ab", "c"), group_hash(kTestSecret, "a", "bc"));
    EXPECT_NE(group_hash(kTestSecret, "a", ""), group_hash(kTestSecret, "", "a"));
}

TEST(GroupHash, ScattersSimilarKeys) {
    std::set<std::int64_t> hashes;
    for (int i = 0; i < 100000; i++) hashes.insert(group_hash(kTestSecret, "q", std::to_string(i)));
    EXPECT_EQ(hashes.size(), 100000U);
}

TEST(PlaceInserted, ANewJobWaits) {
    for (const StatusRow &row : kJobStatuses) {
        if (!is_waiting(row.status)) continue;
        // Even if the INSERT says that the job is the head.
        for (bool active : {false, true}) {
            GroupPlace place = GroupPlace::None;
            EXPECT_TRUE(place_inserted(row.status, false, active, &place));
            EXPECT_EQ(place, GroupPlace::Waiting);
        }
    }
}

TEST(PlaceInserted, AFinishedJobHasNoPlace) {
    for (const StatusRow &row : kJobStatuses) {
        if (!is_finished(row.status)) continue;
        for (bool restored : {false, true}) {
            GroupPlace place = GroupPlace::Active;
            EXPECT_TRUE(place_inserted(row.status, restored, false, &place));
            EXPECT_EQ(place, GroupPlace::None);
        }
        GroupPlace place = GroupPlace::Active;
        EXPECT_TRUE(place_inserted(row.status, false, true, &place));
        EXPECT_EQ(place, GroupPlace::None);
    }
}

TEST(PlaceInserted, ADumpKeepsTheFailedHeadOfAHaltedGroup) {
    GroupPlace place = GroupPlace::None;
    EXPECT_TRUE(place_inserted(JobStatus::Failed, true, true, &place));
    EXPECT_EQ(place, GroupPlace::Active);
    EXPECT_TRUE(place_inserted(JobStatus::Completed, true, true, &place));
    EXPECT_EQ(place, GroupPlace::None);
}

TEST(PlaceInserted, ARunningJobComesOnlyFromADump) {
    GroupPlace place = GroupPlace::None;
    EXPECT_FALSE(place_inserted(JobStatus::Processing, false, true, &place));
    EXPECT_EQ(place, GroupPlace::None);
    EXPECT_TRUE(place_inserted(JobStatus::Processing, true, false, &place));
    EXPECT_EQ(place, GroupPlace::Active);
}

TEST(PlaceInserted, ADumpKeepsTheHead) {
    for (JobStatus status : {JobStatus::Scheduled, JobStatus::Pending}) {
        GroupPlace place = GroupPlace::None;
        EXPECT_TRUE(place_inserted(status, true, true, &place));
        EXPECT_EQ(place, GroupPlace::Active);
        EXPECT_TRUE(place_inserted(status, true, false, &place));
        EXPECT_EQ(place, GroupPlace::Waiting);
    }
    GroupPlace place = GroupPlace::None;
    EXPECT_TRUE(place_inserted(JobStatus::Blocked, true, true, &place));
    EXPECT_EQ(place, GroupPlace::Waiting);
}

TEST(PlaceUpdated, AnActiveJobStaysTheHeadUntilItIsFinishedWithoutAFailureOrBlocked) {
    for (const StatusRow &row : kJobStatuses) {
        GroupPlace place = GroupPlace::None;
        EXPECT_TRUE(place_updated(GroupPlace::Active, row.status, &place));
        if (is_finished(row.status) && row.status != JobStatus::Failed)
            EXPECT_EQ(place, GroupPlace::None);
        else
            EXPECT_EQ(place, row.status == JobStatus::Blocked ? GroupPlace::Waiting : GroupPlace::Active);
    }
}

TEST(PlaceUpdated, PlainSqlMakesNoJobTheHead) {
    for (GroupPlace before : {GroupPlace::None, GroupPlace::Waiting}) {
        for (const StatusRow &row : kJobStatuses) {
            if (!is_waiting(row.status)) continue;
            GroupPlace place = GroupPlace::Active;
            EXPECT_TRUE(place_updated(before, row.status, &place));
            EXPECT_EQ(place, GroupPlace::Waiting);
        }
        GroupPlace place = GroupPlace::None;
        EXPECT_FALSE(place_updated(before, JobStatus::Processing, &place));
        EXPECT_EQ(place, GroupPlace::None);
    }
}

}  // namespace
}  // namespace jobq::core
