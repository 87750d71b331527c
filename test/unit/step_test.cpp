// What a wait is answered, and the hash of an event.
#include "steps/step_policy.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

constexpr Micros kNow = 1000 * kSecond;

TEST(Wait, WhatHasComeCountsBehindTheDeadlineToo) {
    EXPECT_EQ(decide_wait({true, false, false, {}}, kNow), WaitAnswer::Ready);
    EXPECT_EQ(decide_wait({true, false, false, kNow - kHour}, kNow), WaitAnswer::Ready);
    EXPECT_EQ(decide_wait({false, false, false, kNow - 1}, kNow), WaitAnswer::Timeout);
    EXPECT_EQ(decide_wait({false, false, false, kNow}, kNow), WaitAnswer::Timeout);
    EXPECT_EQ(decide_wait({false, false, false, kNow + 1}, kNow), WaitAnswer::Waiting);
    EXPECT_EQ(decide_wait({false, false, false, {}}, kNow), WaitAnswer::Waiting);
}

TEST(Wait, ASleepIsReadyWhenItsTimeHasCome) {
    EXPECT_EQ(decide_wait({false, false, true, kNow}, kNow), WaitAnswer::Ready);
    EXPECT_EQ(decide_wait({false, false, true, kNow + 1}, kNow), WaitAnswer::Waiting);
}

TEST(Wait, WhoeverIsAskedToStopDoesNotWait) {
    for (const bool come : {false, true})
        EXPECT_EQ(decide_wait({come, true, false, kNow + 1}, kNow), WaitAnswer::Cancelled);
}

TEST(Wait, WhatWasDecidedStays) {
    EXPECT_EQ(decided_wait(StepState::Done), WaitAnswer::Ready);
    EXPECT_EQ(decided_wait(StepState::Timeout), WaitAnswer::Timeout);
}

TEST(StepState, NamesAreRead) {
    StepState state = StepState::Done;
    for (const StepState one : {StepState::Waiting, StepState::Timeout, StepState::Done}) {
        EXPECT_TRUE(parse_step_state(step_state_name(one), &state));
        EXPECT_EQ(state, one);
    }
    EXPECT_FALSE(parse_step_state("ready", &state));
}

TEST(EventHash, IsPositiveAndTellsNamesApart) {
    EXPECT_GT(event_hash("a", "bc"), 0);
    EXPECT_NE(event_hash("a", "bc"), event_hash("ab", "c"));
    EXPECT_EQ(event_hash("q", "e"), event_hash("q", "e"));
}

}  // namespace
}  // namespace jobq::core
