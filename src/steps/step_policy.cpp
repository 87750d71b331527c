// See step_policy.h.
#include "steps/step_policy.h"

#include "core/choice.h"
#include "core/stable_hash.h"

namespace jobq::core {

namespace {

constexpr const char *kKindNames[] = {"step", "sleep", "event", "spawn", "all", "any"};
constexpr std::string_view kStateNames[] = {"done", "timeout", "waiting"};
constexpr const char *kAnswerNames[] = {"ready", "timeout", "waiting", "cancelled"};

}  // namespace

const char *step_kind_name(StepKind kind) noexcept { return kKindNames[static_cast<int>(kind)]; }
const char *step_state_name(StepState state) noexcept { return kStateNames[static_cast<int>(state)].data(); }
const char *wait_answer_name(WaitAnswer answer) noexcept { return kAnswerNames[static_cast<int>(answer)]; }

bool parse_step_state(std::string_view label, StepState *state) noexcept {
    return parse_choice(kStateNames, label, state);
}

bool parse_await_mode(std::string_view mode, StepKind *kind) noexcept {
    for (const StepKind one : {StepKind::All, StepKind::Any}) {
        if (mode != step_kind_name(one)) continue;
        *kind = one;
        return true;
    }
    return false;
}

WaitAnswer decide_wait(const Wait &wait, Micros now) noexcept {
    if (wait.cancel) return WaitAnswer::Cancelled;
    if (wait.come) return WaitAnswer::Ready;
    if (!wait.deadline || *wait.deadline > now) return WaitAnswer::Waiting;
    return wait.sleeps ? WaitAnswer::Ready : WaitAnswer::Timeout;
}

WaitAnswer decided_wait(StepState state) noexcept {
    return state == StepState::Done ? WaitAnswer::Ready : WaitAnswer::Timeout;
}

}  // namespace jobq::core
