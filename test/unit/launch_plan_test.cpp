// Tests which worker the launcher starts and when: single decisions, and then whole days with a virtual clock.
#include "core/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <random>
#include <utility>
#include <vector>

namespace jobq::core {
namespace {

constexpr Micros kNow = 1000 * kSecond;
constexpr Micros kMillisecond = 1000;

DatabaseFacts due(Micros next_due, Micros not_before = 0, bool running = false) {
    return {5, next_due, not_before, running};
}

LaunchPlan plan(const std::vector<DatabaseFacts> &databases, int running, int max_workers, Micros lead = 0) {
    return plan_launch(databases.data(), static_cast<int>(databases.size()), running, max_workers, kNow, lead);
}

void expect_plan(const LaunchPlan &plan, int start, Micros wake_at, bool starved) {
    EXPECT_EQ(plan.start, start);
    EXPECT_EQ(plan.wake_at, wake_at);
    EXPECT_EQ(plan.starved, starved);
}

TEST(PlanLaunch, StartsNothingIfNothingIsDue) {
    expect_plan(plan({}, 0, 3), -1, kNever, false);
    expect_plan(plan_launch(nullptr, 0, 0, 3, kNow, 0), -1, kNever, false);
    expect_plan(plan_launch(nullptr, -1, 0, 3, kNow, 0), -1, kNever, false);
    expect_plan(plan({due(kNever)}, 0, 3), -1, kNever, false);
    expect_plan(plan({due(kNow - 1, kNever)}, 0, 3), -1, kNever, false);
    expect_plan(plan({due(kNow - 1, 0, true)}, 1, 3), -1, kNever, false);
}

TEST(PlanLaunch, StartsDueDatabasesAndSleepsUntilTheNext) {
    expect_plan(plan({due(kNow)}, 0, 3), 0, kNever, false);
    expect_plan(plan({due(kNow + 1)}, 0, 3), -1, kNow + 1, false);
    expect_plan(plan({due(kNow + 9), due(kNow + 5), due(kNow - 5)}, 0, 3), 2, kNow + 5, false);
    expect_plan(plan({due(kNow + 9), due(kNow + 5, 0, true)}, 1, 3), -1, kNow + 9, false);
}

TEST(PlanLaunch, StartsTheLongestDueFirst) {
    expect_plan(plan({due(kNow - 1), due(kNow - 3), due(kNow - 2)}, 0, 3), 1, kNow, false);
    expect_plan(plan({due(kNow - 1), due(kNow - 3, 0, true), due(kNow - 2)}, 1, 3), 2, kNow, false);
    expect_plan(plan({due(kNow - 7), due(kNow - 7)}, 0, 3), 0, kNow, false);
}

TEST(PlanLaunch, DelaysAStartUntilNotBefore) {
    expect_plan(plan({due(kNow - kHour, kNow + 1)}, 0, 3), -1, kNow + 1, false);
    expect_plan(plan({due(kNow - kHour, kNow)}, 0, 3), 0, kNever, false);
    // It was held back until just now, so it has waited for less time than the other one.
    expect_plan(plan({due(kNow - kHour, kNow - 1), due(kNow - 2)}, 0, 1), 1, kNever, true);
}

TEST(PlanLaunch, StartsEarlierByTheLead) {
    expect_plan(plan({due(kNow + 10)}, 0, 3, 10), 0, kNever, false);
    expect_plan(plan({due(kNow + 11)}, 0, 3, 10), -1, kNow + 1, false);
    expect_plan(plan({due(kNow + 10, kNow + 4)}, 0, 3, 10), -1, kNow + 4, false);
    expect_plan(plan({due(kNow + 1)}, 0, 3, -10), -1, kNow + 1, false);
}

TEST(PlanLaunch, NeverExceedsMaxWorkers) {
    const std::vector<DatabaseFacts> databases = {due(kNow - 1), due(kNow - 2), due(kNow + 5)};
    expect_plan(plan(databases, 3, 3), -1, kNow + 5, true);
    expect_plan(plan(databases, 4, 3), -1, kNow + 5, true);
    expect_plan(plan(databases, INT_MAX, INT_MAX), -1, kNow + 5, true);
    expect_plan(plan(databases, 0, 0), -1, kNow + 5, true);
    expect_plan(plan(databases, 0, -1), -1, kNow + 5, true);
    expect_plan(plan(databases, 0, INT_MIN), -1, kNow + 5, true);
}

TEST(PlanLaunch, ReportsDatabasesThatWaitForASlot) {
    expect_plan(plan({due(kNow - 1), due(kNow - 2)}, 2, 3), 1, kNever, true);
    expect_plan(plan({due(kNow - 1), due(kNow - 2)}, 1, 3), 1, kNow, false);
    expect_plan(plan({due(kNow - 1)}, 2, 3), 0, kNever, false);
    expect_plan(plan({due(kNow + 1)}, 3, 3), -1, kNow + 1, false);
}

TEST(PlanLaunch, HandlesExtremeTimes) {
    const Micros extremes[] = {INT64_MIN, INT64_MIN + 1, -1, 0, kLatest, INT64_MAX - 1, INT64_MAX};
    for (const Micros next_due : extremes)
        for (const Micros not_before : extremes)
            for (const Micros now : extremes)
                for (const Micros lead : extremes) {
                    const DatabaseFacts facts = due(next_due, not_before);
                    const LaunchPlan plan = plan_launch(&facts, 1, 0, 1, now, lead);
                    if (next_due == kNever || not_before == kNever) {
                        EXPECT_EQ(plan.start, -1);
                    }
                    if (plan.start == 0) {
                        EXPECT_GE(now, not_before);
                    }
                    if (plan.start == -1 && plan.wake_at != kNever) {
                        EXPECT_GT(plan.wake_at, now);
                    }
                }
    const DatabaseFacts always = due(INT64_MIN, INT64_MIN);
    EXPECT_EQ(plan_launch(&always, 1, 0, 1, kNow, kSecond).start, 0);
}

TEST(PlanLaunch, StartsNoExtraWorkersDuringAStormOfWakeUps) {
    std::vector<DatabaseFacts> databases(10, due(kNow - 1));
    int running = 0;
    int launches = 0;
    for (int wake = 0; wake < 10000; wake++) {
        const LaunchPlan next = plan(databases, running, 3);
        if (next.start < 0) continue;
        databases[static_cast<std::size_t>(next.start)].running = true;
        running++;
        launches++;
    }
    EXPECT_EQ(launches, 3);
}

// A launcher that follows the plan exactly, and workers that take some time, with a virtual clock. The launcher wakes
// up at `wake_at`, when a worker exits, and whenever a storm wakes it up for no reason.
class Simulation {
 public:
    struct Config {
        int databases;
        int max_workers;
        Micros lead;
        Micros longest_round;
        Micros longest_pause;  // 0: always due again at once
        bool storm;
    };

    Simulation(const Config &config, unsigned seed) : config_(config), random_(seed) {
        for (int i = 0; i < config.databases; i++) {
            Database database;
            database.facts = {static_cast<std::uint32_t>(i), now_ + pick(config.longest_pause), INT64_MIN, false};
            databases_.push_back(database);
        }
    }

    void run(Micros length) {
        const Micros end = now_ + length;
        while (now_ < end && !::testing::Test::HasFatalFailure()) {
            finish_workers();
            Micros wake_at = launch();
            for (const Database &database : databases_)
                if (database.facts.running) wake_at = std::min(wake_at, database.exits_at);
            ASSERT_GT(wake_at, now_) << "the launcher would spin";
            ASSERT_NE(wake_at, kNever) << "the launcher would sleep for ever";
            if (config_.storm) wake_at = std::min(wake_at, now_ + 1 + pick(kMillisecond));
            now_ = wake_at;
        }
    }

    int rounds_min() const { return extreme_rounds().first; }
    int rounds_max() const { return extreme_rounds().second; }
    int rounds() const {
        int total = 0;
        for (const Database &database : databases_) total += database.rounds;
        return total;
    }
    int running() const { return running_; }
    int launches() const { return launches_; }
    Micros longest_wait() const { return longest_wait_; }
    int most_running() const { return most_running_; }

 private:
    struct Database {
        DatabaseFacts facts = {};
        Micros exits_at = kNever;
        int rounds = 0;
    };

    Micros pick(Micros limit) {
        return limit <= 0 ? 0 : static_cast<Micros>(random_() % static_cast<std::uint64_t>(limit));
    }

    Micros startable_at(const Database &database) const {
        return std::max(database.facts.next_due - config_.lead, database.facts.not_before);
    }

    void finish_workers() {
        for (Database &database : databases_) {
            if (!database.facts.running || database.exits_at > now_) continue;
            running_--;
            database.rounds++;
            database.facts.running = false;
            database.facts.next_due = now_ + pick(config_.longest_pause);
            database.facts.not_before = now_;
        }
    }

    Micros launch() {
        LaunchPlan next = {};
        for (int starts = 0;; starts++) {
            next = plan_launch(facts().data(), config_.databases, running_, config_.max_workers, now_, config_.lead);
            if (next.start < 0) break;
            EXPECT_LT(starts, config_.max_workers);
            start(databases_[static_cast<std::size_t>(next.start)]);
        }
        check_idle(next);
        return next.wake_at;
    }

    void start(Database &database) {
        EXPECT_FALSE(database.facts.running);
        EXPECT_GE(now_, startable_at(database)) << "started too early";
        for (const Database &other : databases_)
            if (!other.facts.running) {
                EXPECT_LE(startable_at(database), startable_at(other)) << "jumped the queue";
            }
        longest_wait_ = std::max(longest_wait_, now_ - startable_at(database));
        database.facts.running = true;
        database.exits_at = now_ + config_.lead + 1 + pick(config_.longest_round);
        running_++;
        launches_++;
        most_running_ = std::max(most_running_, running_);
    }

    // If the plan starts nothing, either nothing can be started or no worker slot is free.
    void check_idle(const LaunchPlan &next) {
        bool due_now = false;
        for (const Database &database : databases_)
            if (!database.facts.running && startable_at(database) <= now_) due_now = true;
        EXPECT_EQ(next.starved, due_now);
        if (due_now) {
            EXPECT_EQ(running_, config_.max_workers);
        }
    }

    std::vector<DatabaseFacts> facts() const {
        std::vector<DatabaseFacts> all;
        for (const Database &database : databases_) all.push_back(database.facts);
        return all;
    }

    std::pair<int, int> extreme_rounds() const {
        std::pair<int, int> extremes = {INT_MAX, 0};
        for (const Database &database : databases_) {
            extremes.first = std::min(extremes.first, database.rounds);
            extremes.second = std::max(extremes.second, database.rounds);
        }
        return extremes;
    }

    Config config_;
    std::mt19937_64 random_;
    std::vector<Database> databases_;
    Micros now_ = kNow;
    Micros longest_wait_ = 0;
    int running_ = 0;
    int most_running_ = 0;
    int launches_ = 0;
};

TEST(PlanLaunchSimulation, FiftyDatabasesShareThreeWorkersFairly) {
    for (unsigned seed = 1; seed <= 10; seed++) {
        Simulation simulation({50, 3, 5 * kMillisecond, 40 * kMillisecond, 5 * kSecond, false}, seed);
        simulation.run(2 * kMinute);
        EXPECT_LE(simulation.most_running(), 3);
        // In the worst case all other databases are served first, three at a time.
        EXPECT_LE(simulation.longest_wait(), (50 / 3 + 1) * 46 * kMillisecond) << seed;
        EXPECT_GE(simulation.rounds_min(), 20) << seed;
    }
}

TEST(PlanLaunchSimulation, EveryRoundStartsOnTimeIfASlotIsFree) {
    Simulation simulation({20, 20, 5 * kMillisecond, 40 * kMillisecond, 5 * kSecond, false}, 4);
    simulation.run(2 * kMinute);
    EXPECT_EQ(simulation.longest_wait(), 0);
    EXPECT_GE(simulation.rounds_min(), 20);
}

TEST(PlanLaunchSimulation, DatabasesThatAreAlwaysDueTakeTurns) {
    Simulation simulation({50, 3, 0, 40 * kMillisecond, 0, false}, 9);
    simulation.run(kMinute);
    EXPECT_EQ(simulation.most_running(), 3);
    EXPECT_GE(simulation.rounds_min(), 50);
    EXPECT_LE(simulation.rounds_max() - simulation.rounds_min(), 2);
}

TEST(PlanLaunchSimulation, AStormOfWakeUpsChangesNothing) {
    Simulation simulation({50, 3, 5 * kMillisecond, 40 * kMillisecond, 5 * kSecond, true}, 3);
    simulation.run(20 * kSecond);
    EXPECT_LE(simulation.most_running(), 3);
    EXPECT_LE(simulation.longest_wait(), (50 / 3 + 1) * 46 * kMillisecond);
    EXPECT_EQ(simulation.launches(), simulation.rounds() + simulation.running()) << "a launch without a round";
    EXPECT_GE(simulation.rounds_min(), 1);
}

TEST(PlanLaunchSimulation, OneWorkerServesAllDatabases) {
    Simulation simulation({50, 1, 0, 20 * kMillisecond, kSecond, false}, 6);
    simulation.run(kMinute);
    EXPECT_EQ(simulation.most_running(), 1);
    EXPECT_GE(simulation.rounds_min(), 40);
}

TEST(LaunchBackoff, DoublesFromOneSecondToSixty) {
    const Micros seconds[] = {0, 1, 2, 4, 8, 16, 32, 60, 60, 60};
    for (int failures = 0; failures < 10; failures++)
        EXPECT_EQ(launch_backoff(failures), seconds[failures] * kSecond) << failures;
    EXPECT_EQ(launch_backoff(INT_MAX), 60 * kSecond);
    EXPECT_EQ(launch_backoff(-1), 0);
    EXPECT_EQ(launch_backoff(INT_MIN), 0);
}

TEST(ClampSleep, StaysWithinTheBounds) {
    const Micros min = 10 * kMillisecond;
    const Micros max = kMinute;
    EXPECT_EQ(clamp_sleep(kNow, kNow + kSecond, min, max), kSecond);
    EXPECT_EQ(clamp_sleep(kNow, kNow + min, min, max), min);
    EXPECT_EQ(clamp_sleep(kNow, kNow + min - 1, min, max), min);
    EXPECT_EQ(clamp_sleep(kNow, kNow, min, max), min);
    EXPECT_EQ(clamp_sleep(kNow, kNow - kDay, min, max), min) << "the clock stepped forward";
    EXPECT_EQ(clamp_sleep(kNow, kNow + max, min, max), max);
    EXPECT_EQ(clamp_sleep(kNow, kNow + max + 1, min, max), max);
    EXPECT_EQ(clamp_sleep(kNow, kNow + kDay, min, max), max) << "the clock stepped back";
    EXPECT_EQ(clamp_sleep(kNow, kNever, min, max), max);
}

TEST(ClampSleep, StaysWithinTheBoundsForExtremeTimes) {
    const Micros extremes[] = {INT64_MIN, -kLatest, -1, 0, 1, kLatest, INT64_MAX};
    for (const Micros now : extremes)
        for (const Micros wake_at : extremes) {
            const Micros sleep = clamp_sleep(now, wake_at, 7, 11);
            EXPECT_GE(sleep, 7);
            EXPECT_LE(sleep, 11);
        }
    EXPECT_EQ(clamp_sleep(INT64_MAX, INT64_MAX, 7, 11), 11) << "never means the longest sleep, whatever the time";
    EXPECT_EQ(clamp_sleep(0, 5, 11, 7), 11) << "the lower bound wins: no spinning";
}

}  // namespace
}  // namespace jobq::core
