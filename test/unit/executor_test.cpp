// Tests which executor is started, which executor makes room, and which executor is to blame for a lost job.
#include "handlers/executor_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace jobq::core {
namespace {

constexpr std::uint32_t kHere = 5, kElsewhere = 6;
constexpr Micros kNow = 1000 * kSecond;

ExecutorFacts idle(std::uint32_t role, Micros since = kNow - 1, std::uint32_t database = kHere) {
    return {database, role, true, false, false, since, 0};
}
ExecutorFacts busy(std::uint32_t role, Micros since = kNow - kMinute, std::uint32_t database = kHere) {
    return {database, role, false, false, false, since, 0};
}
ExecutorFacts starting(std::uint32_t role) { return {kHere, role, false, true, false, kNow, 0}; }
ExecutorFacts leaving(std::uint32_t role, Micros asked = kNow - 1) {
    return {kHere, role, false, false, true, kNow - kMinute, asked};
}
PoolFacts wanting(std::uint32_t role) { return {role, true, false}; }

ExecutorPlan plan(const std::vector<PoolFacts> &pools, const std::vector<ExecutorFacts> &executors, int most,
                  int ahead = 0) {
    return plan_executors(kHere, pools.data(), static_cast<int>(pools.size()), executors.data(),
                          static_cast<int>(executors.size()), most, ahead, kNow);
}

void expect_plan(const ExecutorPlan &plan, int start, int leave, bool shortage) {
    EXPECT_EQ(plan.start, start);
    EXPECT_EQ(plan.leave, leave);
    EXPECT_EQ(plan.shortage, shortage);
}

TEST(Executors, AreStartedForPoolsWithWork) {
    expect_plan(plan({}, {}, 2), -1, -1, false);
    expect_plan(plan({{1, false, false}}, {}, 2), -1, -1, false);
    expect_plan(plan({{1, false, false}, wanting(2)}, {}, 2), 1, -1, false);
}

TEST(Executors, AreNotStartedIfOneIsIdle) {
    expect_plan(plan({wanting(1)}, {idle(1)}, 2), -1, -1, false);
    expect_plan(plan({wanting(1)}, {starting(1)}, 2), -1, -1, false);
    // An executor of another role or in another database does not help, and neither does one that is exiting.
    expect_plan(plan({wanting(1)}, {idle(2)}, 2), 0, -1, false);
    expect_plan(plan({wanting(1)}, {idle(1, kNow - 1, kElsewhere)}, 2), 0, -1, false);
    expect_plan(plan({wanting(1)}, {leaving(1)}, 2), 0, -1, false);
}

TEST(Executors, AreStartedIfAllAreBusy) { expect_plan(plan({wanting(1)}, {busy(1)}, 2), 0, -1, false); }

TEST(Executors, NeverExceedTheLimit) {
    expect_plan(plan({wanting(1)}, {busy(1), busy(1)}, 2), -1, -1, true);
    expect_plan(plan({wanting(1)}, {}, 0), -1, -1, true);
}

TEST(Executors, MakeRoomIfIdleTheLongestIdleFirst) {
    expect_plan(plan({wanting(1)}, {idle(2, kNow - 5), idle(3, kNow - 9), busy(4)}, 3), -1, 1, true);
    expect_plan(plan({wanting(1)}, {busy(2), idle(3, kNow - 9, kElsewhere)}, 2), -1, 1, true);
}

TEST(Executors, MakeRoomIfBusyForATimeSlice) {
    expect_plan(plan({wanting(1)}, {busy(2, kNow - kSlice + 1), busy(3, kNow - 1)}, 2), -1, -1, true);
    expect_plan(plan({wanting(1)}, {busy(2, kNow - kSlice), busy(3, kNow - 2 * kSlice)}, 2), -1, 1, true);
}

TEST(Executors, DoNotMakeRoomForTheirOwnPool) { expect_plan(plan({wanting(1)}, {busy(1), busy(1)}, 2), -1, -1, true); }

TEST(Executors, MakeRoomOneAtATime) {
    expect_plan(plan({wanting(1)}, {leaving(2), idle(3)}, 2), -1, -1, true);
    // An executor that is starting cannot switch to another handler yet.
    expect_plan(plan({wanting(1)}, {starting(2), starting(3)}, 2), -1, -1, true);
}

TEST(Executors, AreNotWaitedForIfTheyExitSlowly) {
    expect_plan(plan({wanting(1)}, {leaving(2, kNow - kSlice + 1), busy(2)}, 2), -1, -1, true);
    expect_plan(plan({wanting(1)}, {leaving(2, kNow - kSlice), busy(2)}, 2), -1, 1, true);
    // An executor is asked once.
    expect_plan(plan({wanting(1)}, {leaving(2, kNow - kSlice), leaving(2, kNow - 1)}, 2), -1, -1, true);
    expect_plan(plan({wanting(1)}, {leaving(2, kNow - kSlice), leaving(2, kNow - kSlice)}, 2), -1, -1, true);
    // The clock was set back.
    expect_plan(plan({wanting(1)}, {leaving(2, kNow + kMinute), busy(2)}, 2), -1, 1, true);
}

TEST(Executors, AreNotStartedForSuspendedPools) {
    expect_plan(plan({{1, true, true}}, {}, 2), -1, -1, false);
    expect_plan(plan({{1, true, true}, {2, true, false}}, {}, 2), 1, -1, false);
    expect_plan(plan({{1, true, true}, {2, true, false}}, {busy(3), busy(3)}, 2), -1, 0, true);
}

TEST(Executors, ExitIfTheSettingIsLowered) {
    expect_plan(plan({}, {busy(1, kNow), idle(2), busy(3)}, 2), -1, 1, false);
    expect_plan(plan({}, {busy(1, kNow), busy(3)}, 1), -1, 1, false);
    expect_plan(plan({wanting(1)}, {busy(1)}, 0), -1, 0, true);
}

// Pools with endless work and fewer executors than pools: all pools get their turns.
TEST(Executors, ServePoolsInTurn) {
    std::vector<PoolFacts> pools = {wanting(1), wanting(2), wanting(3), wanting(4)};
    std::vector<ExecutorFacts> executors;
    std::vector<int> served(5);
    for (Micros now = 0; now < kMinute; now += kSecond / 10) {
        for (auto it = executors.begin(); it != executors.end();) it = it->leaving ? executors.erase(it) : it + 1;
        for (PoolFacts &pool : pools) {
            pool.wants_one = true;
            for (const ExecutorFacts &executor : executors) pool.wants_one &= executor.role != pool.role;
        }
        const ExecutorPlan plan =
            plan_executors(kHere, pools.data(), 4, executors.data(), static_cast<int>(executors.size()), 2, 0, now);
        if (plan.leave >= 0) executors[plan.leave].leaving = true;
        if (plan.start >= 0) executors.push_back({kHere, pools[plan.start].role, false, false, false, now, 0});
        for (const ExecutorFacts &executor : executors) served[executor.role]++;
        EXPECT_LE(executors.size(), 2U);
        // A pool that has had a turn comes last the next time.
        if (plan.start >= 0) std::rotate(pools.begin(), pools.begin() + plan.start + 1, pools.end());
    }
    for (int role = 1; role <= 4; role++) EXPECT_GT(served[role], 100) << role;
}

TEST(Executors, LeaveFreeSlotsToDatabasesThatHaveWaitedLonger) {
    expect_plan(plan({wanting(1)}, {busy(1)}, 2, 1), -1, -1, true);
    expect_plan(plan({wanting(1)}, {}, 2, 1), 0, -1, false);
    // It takes an executor itself only if all executors are in use.
    expect_plan(plan({wanting(1)}, {busy(2), busy(2)}, 2, 1), -1, 0, true);
}

TEST(ExecutorWaits, TheLongestWaitComesFirst) {
    constexpr Micros kept = 5 * kSecond;
    const ExecutorWaitFacts waits[] = {
        {0, 0, 0}, {7, kNow - 3, kNow}, {kElsewhere, kNow - 9, kNow}, {8, kNow - kMinute, kNow - kept - 1}};
    EXPECT_EQ(longest_wait(waits, 4, kept, kNow), 2);
    EXPECT_EQ(longest_wait(waits, 1, kept, kNow), -1);
    EXPECT_EQ(databases_ahead(kElsewhere, waits, 4, kept, kNow), 0);
    EXPECT_EQ(databases_ahead(7, waits, 4, kept, kNow), 1);
    // A database that does not wait yet comes last, as does one whose wait is over.
    EXPECT_EQ(databases_ahead(kHere, waits, 4, kept, kNow), 2);
    EXPECT_EQ(databases_ahead(8, waits, 4, kept, kNow), 2);
    // A clock that was set back ends all waits.
    EXPECT_EQ(databases_ahead(kHere, waits, 4, kept, kNow - kMinute), 0);
}

// Three databases with endless work and two executors: each database gets its turns.
TEST(ExecutorWaits, DatabasesTakeTurns) {
    std::vector<ExecutorFacts> executors;
    std::vector<ExecutorWaitFacts> waits(3);
    std::vector<int> served(4);
    for (Micros now = kMinute; now < 2 * kMinute; now += kSecond / 10) {
        for (std::uint32_t database = 1; database <= 3; database++) {
            // Its executors exit, and its worker is the first to look for one.
            for (auto it = executors.begin(); it != executors.end();)
                it = it->database == database && it->leaving ? executors.erase(it) : it + 1;
            const PoolFacts pool = {1, true, false};
            const ExecutorPlan plan =
                plan_executors(database, &pool, 1, executors.data(), static_cast<int>(executors.size()), 2,
                               databases_ahead(database, waits.data(), 3, 5 * kSecond, now), now);
            ExecutorWaitFacts &wait = waits[database - 1];
            if (plan.shortage)
                wait = {database, wait.database == 0 ? now : wait.since, now};
            else
                wait = {};
            if (plan.leave >= 0) executors[plan.leave].leaving = true;
            if (plan.start >= 0) executors.push_back({database, 1, false, false, false, now, 0});
        }
        for (const ExecutorFacts &executor : executors) served[executor.database]++;
        EXPECT_LE(executors.size(), 2U);
    }
    for (int database = 1; database <= 3; database++) EXPECT_GT(served[database], 200) << database;
}

TEST(Orphans, ASingleLostJobIsBlamed) {
    EXPECT_EQ(end_of_orphan(1, false, false, false), RescueEnd::Lost);
    EXPECT_EQ(end_of_orphan(1, true, false, false), RescueEnd::Lost);
}

TEST(Orphans, OfSeveralLostJobsOnlyASuspectIsBlamed) {
    EXPECT_EQ(end_of_orphan(2, false, false, false), RescueEnd::LostInCompany);
    EXPECT_EQ(end_of_orphan(64, true, false, false), RescueEnd::Lost);
}

TEST(Orphans, AJobThatIsNotBlamedLosesNoAttempt) {
    EXPECT_EQ(end_of_orphan(1, true, true, false), RescueEnd::GivenBack);
    EXPECT_EQ(end_of_orphan(3, false, true, false), RescueEnd::GivenBack);
}

TEST(EndOfOrphan, AJobThatWasStoppedAtMaxRuntimeHasOverrun) {
    EXPECT_EQ(end_of_orphan(1, false, false, true), RescueEnd::Overran);
    EXPECT_EQ(end_of_orphan(2, true, false, true), RescueEnd::Overran);
    EXPECT_EQ(end_of_orphan(1, false, true, true), RescueEnd::GivenBack);
}

TEST(Handlers, HaveDifferentHashes) {
    EXPECT_NE(handler_hash("a", "bc"), handler_hash("ab", "c"));
    EXPECT_NE(handler_hash("a", ""), handler_hash("", "a"));
    EXPECT_EQ(handler_hash("emails", "welcome"), handler_hash("emails", "welcome"));
}

}  // namespace
}  // namespace jobq::core
