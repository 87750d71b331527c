// Tests how many workers a queue needs.
#include "admin/workers_wanted_policy.h"

#include <gtest/gtest.h>

#include <climits>
#include <random>

namespace jobq::core {
namespace {

constexpr Room kUnlimited = {INT64_MAX / 2, INT64_MAX / 2};
// No jobs; jobs run for 3 s and may wait for 30 s.
constexpr Workload kEmpty = {0, 0, 3 * kSecond, 30 * kSecond, false};

Workload load_of(std::int64_t pending, std::int64_t running = 0) {
    Workload load = kEmpty;
    load.pending = pending, load.running = running;
    return load;
}

TEST(WorkersWanted, NoneForAnEmptyQueue) { EXPECT_EQ(slots_wanted(kEmpty, kUnlimited), 0); }

TEST(WorkersWanted, EnoughToStartTheBacklogWithinTheTarget) {
    EXPECT_EQ(slots_wanted(load_of(1), kUnlimited), 1);
    EXPECT_EQ(slots_wanted(load_of(100), kUnlimited), 10);
    EXPECT_EQ(slots_wanted(load_of(101), kUnlimited), 11);
}

TEST(WorkersWanted, AtMostOneSlotPerJob) {
    Workload load = load_of(4, 2);
    load.duration = kDay;
    EXPECT_EQ(slots_wanted(load, kUnlimited), 6);
}

TEST(WorkersWanted, RunningJobsKeepTheirWorkers) {
    EXPECT_EQ(slots_wanted(load_of(0, 7), kUnlimited), 7);
    EXPECT_EQ(slots_wanted(load_of(5, 7), Room{0, 0}), 7);
}

TEST(WorkersWanted, OneMoreIfAJobIsOverdue) {
    Workload load = load_of(5, 7);
    load.overdue = true;
    EXPECT_EQ(slots_wanted(load, kUnlimited), 8);
    EXPECT_EQ(slots_wanted(load, Room{0, 100}), 7);
}

TEST(WorkersWanted, AWorkerEvenForTheShortestJobs) {
    Workload load = load_of(5);
    load.duration = 1;
    EXPECT_EQ(slots_wanted(load, kUnlimited), 1);
    EXPECT_EQ(slots_wanted(load, Room{0, 5}), 0);
}

TEST(WorkersWanted, NotMoreThanTheLimitsAllow) {
    EXPECT_EQ(slots_wanted(load_of(1000), Room{4, 1000}), 4);
    EXPECT_EQ(slots_wanted(load_of(1000, 3), Room{4, 1000}), 7);
    // If only 50 jobs may start within the target, 5 slots start all of them.
    EXPECT_EQ(slots_wanted(load_of(1000), Room{1000, 50}), 5);
    EXPECT_EQ(slots_wanted(load_of(1000), Room{1000, 0}), 0);
}

TEST(WorkersWanted, StaysWithinItsBoundsForAnyNumbers) {
    std::mt19937_64 random(7);
    const auto any = [&random](std::int64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
    for (int round = 0; round < 100000; round++) {
        const std::int64_t most = std::int64_t{1} << any(40);
        const Workload load = {any(most), any(1000), any(kDay * 365), any(kDay * 36) + 1, any(1) == 1};
        const Room room = {any(most), any(most)};
        const std::int64_t slots = slots_wanted(load, room);
        ASSERT_GE(slots, load.running);
        ASSERT_LE(slots, load.running + room.at_once);
        ASSERT_LE(slots, slots_needed(load));
    }
}

TEST(WorkersFor, RoundsUp) {
    EXPECT_EQ(workers_for(0, 8), 0);
    EXPECT_EQ(workers_for(1, 8), 1);
    EXPECT_EQ(workers_for(8, 8), 1);
    EXPECT_EQ(workers_for(9, 8), 2);
    EXPECT_EQ(workers_for(INT64_MAX, 1), INT_MAX);
}

}  // namespace
}  // namespace jobq::core
