// Pure functions about durable steps. They define what the name of a step can stand for, and what a call that waits
// returns.
#pragma once

#include "core/job.h"
#include "core/life.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxStepBytes = 255;   // maximum length of the name of a step
constexpr std::size_t kMaxEventBytes = 255;  // maximum length of the name of an event

// What the name of a step can stand for. Within a job, a name cannot stand for two different things.
enum class StepKind : std::uint8_t { Step, Sleep, Event, Spawn, All, Any };
const char *step_kind_name(StepKind kind) noexcept;
// Returns whether the step is a wait for the end of other jobs.
constexpr bool awaits_jobs(StepKind kind) noexcept { return kind == StepKind::All || kind == StepKind::Any; }
// Returns whether the row of the step has a list of jobs.
constexpr bool has_jobs(StepKind kind) noexcept { return kind == StepKind::Spawn || awaits_jobs(kind); }
// Sets *kind to the kind of step that belongs to this mode of jobq_await_jobs. Returns false, without setting *kind, if
// the mode is unknown.
bool parse_await_mode(std::string_view mode, StepKind *kind) noexcept;
// Returns whether the wait for `count` jobs is over when `ended` of them have ended.
constexpr bool jobs_have_ended(StepKind kind, int ended, int count) noexcept {
    return kind == StepKind::Any ? ended > 0 : ended == count;
}

// Returns the event that a job undergoes when it saves a step. Saving a step again counts only as a heartbeat, not as
// progress, because the job might crash its worker after this step in every attempt.
constexpr EventKind event_of_saving(bool known) noexcept { return known ? EventKind::Heartbeat : EventKind::StepSaved; }

enum class StepState : std::uint8_t { Done, Timeout, Waiting };
const char *step_state_name(StepState state) noexcept;
// Sets *state to the state with this label. Returns false, without setting *state, if the label is unknown.
bool parse_step_state(std::string_view label, StepState *state) noexcept;

// What a function that waits returns to the worker.
enum class WaitAnswer : std::uint8_t { Ready, Timeout, Waiting, Cancelled };
const char *wait_answer_name(WaitAnswer answer) noexcept;

// The facts that decide the outcome of a wait.
struct Wait {
    bool come;          // what the job awaits has arrived or ended
    bool cancel;        // cancellation was requested
    bool sleeps;        // the job waits only for the deadline
    OptInt64 deadline;  // none: never
};
// Decides the outcome of a wait. Must be called only if no earlier call has decided it. The wait is successful even if
// the awaited signal arrived, or the awaited jobs ended, after the deadline.
WaitAnswer decide_wait(const Wait &wait, Micros now) noexcept;
// Returns the answer for a wait whose outcome has already been decided. `state` is the state of its step.
WaitAnswer decided_wait(StepState state) noexcept;

}  // namespace jobq::core
