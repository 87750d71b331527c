// Tests the answers to a wait and the hash of an event.
#include "steps/step_policy.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

constexpr Micros kNow = 1000 * kSecond;

TEST(Wait, AnEventAfterTheDeadlineStillCounts) {
    EXPECT_EQ(decide_wait({true, false, false, {}}, kNow), WaitAnswer::Ready);
    EXPECT_EQ(decide_wait({true, false, false, kNow - kHour}, kNow), WaitAnswer::Ready);
    EXPECT_EQ(decide_wait({false, false, false, kNow - 1}, kNow), WaitAnswer::Timeout);
    EXPECT_EQ(decide_wait({false, false, false, kNow}, kNow), WaitAnswer::Timeout);
    EXPECT_EQ(decide_wait({false, false, false, kNow + 1}, kNow), WaitAnswer::Waiting);
    EXPECT_EQ(decide_wait({false, false, false, {}}, kNow), WaitAnswer::Waiting);
}

TEST(Wait, ASleepIsReadyWhenItsTimeHasPassed) {
    EXPECT_EQ(decide_wait({false, false, true, kNow}, kNow), WaitAnswer::Ready);
    EXPECT_EQ(decide_wait({false, false, true, kNow + 1}, kNow), WaitAnswer::Waiting);
}

TEST(Wait, AJobWithACancelRequestDoesNotWait) {
    for (const bool come : {false, true})
        EXPECT_EQ(decide_wait({come, true, false, kNow + 1}, kNow), WaitAnswer::Cancelled);
}

TEST(Wait, ADecidedWaitDoesNotChange) {
    EXPECT_EQ(decided_wait(StepState::Done), WaitAnswer::Ready);
    EXPECT_EQ(decided_wait(StepState::Timeout), WaitAnswer::Timeout);
}

TEST(StepState, NamesAreParsed) {
    StepState state = StepState::Done;
    for (const StepState one : {StepState::Waiting, StepState::Timeout, StepState::Done}) {
        EXPECT_TRUE(parse_step_state(step_state_name(one), &state));
        EXPECT_EQ(state, one);
    }
    EXPECT_FALSE(parse_step_state("ready", &state));
}

TEST(JobsHaveEnded, DependsOnAllOrAny) {
    EXPECT_FALSE(jobs_have_ended(StepKind::All, 1, 2));
    EXPECT_TRUE(jobs_have_ended(StepKind::All, 2, 2));
    EXPECT_TRUE(jobs_have_ended(StepKind::All, 0, 0));
    EXPECT_FALSE(jobs_have_ended(StepKind::Any, 0, 2));
    EXPECT_TRUE(jobs_have_ended(StepKind::Any, 1, 2));
}

TEST(EventOfSaving, AStepThatWasSavedBeforeIsOnlyAHeartbeat) {
    EXPECT_EQ(event_of_saving(false), EventKind::StepSaved);
    EXPECT_EQ(event_of_saving(true), EventKind::Heartbeat);
}

TEST(AwaitMode, NamesAreParsed) {
    StepKind kind = StepKind::Step;
    EXPECT_FALSE(parse_await_mode("event", &kind));
    EXPECT_FALSE(parse_await_mode("", &kind));
    EXPECT_EQ(kind, StepKind::Step);
    for (const StepKind one : {StepKind::All, StepKind::Any}) {
        EXPECT_TRUE(parse_await_mode(step_kind_name(one), &kind));
        EXPECT_EQ(kind, one);
        EXPECT_TRUE(awaits_jobs(one));
    }
    EXPECT_FALSE(awaits_jobs(StepKind::Spawn));
    EXPECT_FALSE(awaits_jobs(StepKind::Event));
    EXPECT_TRUE(has_jobs(StepKind::Spawn) && has_jobs(StepKind::All) && has_jobs(StepKind::Any));
    EXPECT_FALSE(has_jobs(StepKind::Step) || has_jobs(StepKind::Event) || has_jobs(StepKind::Sleep));
}

}  // namespace
}  // namespace jobq::core
