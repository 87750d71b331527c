// core/group: the number of a group, and the place of a job in it after a change by hand.
#include "groups/group_policy.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace jobq::core {
namespace {

constexpr JobStatus kStatuses[] = {JobStatus::Scheduled, JobStatus::Blocked, JobStatus::Pending,  JobStatus::Processing,
                                   JobStatus::Completed, JobStatus::Failed,  JobStatus::Cancelled};

// These numbers are in tables and dumps: they must never change.
TEST(GroupHash, IsTheSameForEver) {
    EXPECT_EQ(group_hash("orders", "customer 1"), -3138153747172318844);
    EXPECT_EQ(group_hash("", ""), -6493949153376905206);
}

TEST(GroupHash, KeepsQueueAndKeyApart) {
    EXPECT_NE(group_hash("ab", "c"), group_hash("a", "bc"));
    EXPECT_NE(group_hash("a", ""), group_hash("", "a"));
}

TEST(GroupHash, ScattersKeysThatDifferLittle) {
    std::set<std::int64_t> hashes;
    for (int i = 0; i < 100000; i++) hashes.insert(group_hash("q", std::to_string(i)));
    EXPECT_EQ(hashes.size(), 100000U);
}

TEST(PlaceInserted, WhatIsNewWaits) {
    for (JobStatus status : {JobStatus::Scheduled, JobStatus::Blocked, JobStatus::Pending}) {
        // Whatever the INSERT says of its turn.
        for (bool active : {false, true}) {
            GroupPlace place = GroupPlace::None;
            EXPECT_TRUE(place_inserted(status, false, active, &place));
            EXPECT_EQ(place, GroupPlace::Waiting);
        }
    }
}

TEST(PlaceInserted, AFinishedJobHasNone) {
    for (JobStatus status : kStatuses) {
        if (!is_finished(status)) continue;
        for (bool restored : {false, true}) {
            GroupPlace place = GroupPlace::Active;
            EXPECT_TRUE(place_inserted(status, restored, true, &place));
            EXPECT_EQ(place, GroupPlace::None);
        }
    }
}

TEST(PlaceInserted, ARunningJobComesOnlyFromADump) {
    GroupPlace place = GroupPlace::None;
    EXPECT_FALSE(place_inserted(JobStatus::Processing, false, true, &place));
    EXPECT_EQ(place, GroupPlace::None);
    EXPECT_TRUE(place_inserted(JobStatus::Processing, true, false, &place));
    EXPECT_EQ(place, GroupPlace::Active);
}

TEST(PlaceInserted, ADumpKeepsTheTurn) {
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

TEST(PlaceUpdated, AnActiveJobKeepsItsTurnUntilItIsFinishedOrBlocked) {
    for (JobStatus status : kStatuses) {
        GroupPlace place = GroupPlace::None;
        EXPECT_TRUE(place_updated(GroupPlace::Active, status, &place));
        if (is_finished(status))
            EXPECT_EQ(place, GroupPlace::None);
        else
            EXPECT_EQ(place, status == JobStatus::Blocked ? GroupPlace::Waiting : GroupPlace::Active);
    }
}

TEST(PlaceUpdated, NobodyGetsATurnByHand) {
    for (GroupPlace before : {GroupPlace::None, GroupPlace::Waiting}) {
        for (JobStatus status : {JobStatus::Scheduled, JobStatus::Blocked, JobStatus::Pending}) {
            GroupPlace place = GroupPlace::Active;
            EXPECT_TRUE(place_updated(before, status, &place));
            EXPECT_EQ(place, GroupPlace::Waiting);
        }
        GroupPlace place = GroupPlace::None;
        EXPECT_FALSE(place_updated(before, JobStatus::Processing, &place));
        EXPECT_EQ(place, GroupPlace::None);
    }
}

}  // namespace
}  // namespace jobq::core
