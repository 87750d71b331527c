// Pure functions about durable steps: what the name of a step stands for, and what a call that waits returns.
#pragma once

#include "core/job.h"
#include "core/life.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxStepBytes = 255;   // maximum length of a name
constexpr std::size_t kMaxEventBytes = 255;  // maximum length of an event

// What the name of a step stands for. Within a job, a name cannot stand for two things. (name, label in SQL)
#define JOBQ_STEP_KINDS(KIND) \
    KIND(Step, "step")        \
    KIND(Sleep, "sleep")      \
    KIND(Event, "event")      \
    KIND(Spawn, "spawn")      \
    KIND(All, "all")          \
    KIND(Any, "any")

enum class StepKind : std::uint8_t {
#define JOBQ_NAME(name, label) name,
    JOBQ_STEP_KINDS(JOBQ_NAME)
#undef JOBQ_NAME
};
const char *step_kind_name(StepKind kind) noexcept;
// Returns whether the step is a wait for the end of other jobs.
constexpr bool awaits_jobs(StepKind kind) noexcept { return kind == StepKind::All || kind == StepKind::Any; }
// Returns whether the row of the step has a list of jobs.
constexpr bool has_jobs(StepKind kind) noexcept { return kind == StepKind::Spawn || awaits_jobs(kind); }
// Converts the mode of jobq_await_jobs. Returns false, and leaves *kind as it is, if the mode is unknown.
bool parse_await_mode(std::string_view mode, StepKind *kind) noexcept;
// Returns whether the wait for `count` jobs is over when `ended` of them have ended.
constexpr bool jobs_have_ended(StepKind kind, int ended, int count) noexcept {
    return kind == StepKind::Any ? ended > 0 : ended == count;
}

// Returns the event of a job that saves a step. Saving a step that was already saved counts only as a heartbeat, not as
// progress, because the job may kill its worker after this step in every attempt.
constexpr EventKind event_of_saving(bool known) noexcept { return known ? EventKind::Heartbeat : EventKind::StepSaved; }

enum class StepState : std::uint8_t { Done, Timeout, Waiting };
const char *step_state_name(StepState state) noexcept;
// Returns false, and leaves *state as it is, if the label is unknown.
bool parse_step_state(std::string_view label, StepState *state) noexcept;

// What a function that waits returns to the worker.
enum class WaitAnswer : std::uint8_t { Ready, Timeout, Waiting, Cancelled };
const char *wait_answer_name(WaitAnswer answer) noexcept;

// The facts that decide the outcome of a wait.
struct Wait {
    bool come;          // the awaited thing has come
    bool cancel;        // cancellation was requested
    bool sleeps;        // the job waits only for the deadline
    OptInt64 deadline;  // none: never
};
// Decides a wait that has not been decided yet. If what the job awaits came after the deadline, the wait still counts
// as successful, because no earlier call has decided that it has timed out.
WaitAnswer decide_wait(const Wait &wait, Micros now) noexcept;
// Returns the answer for a wait that has been decided.
WaitAnswer decided_wait(StepState state) noexcept;

// Stored instead of an event hash if the job awaits other jobs.
constexpr std::int64_t kAwaitsJobs = -1;
// Returns a hash above 0. The jobs of a queue that await an event are found by it. If two events have the same hash by
// chance, jobs that await the other event are also unblocked, and then wait again.
std::int64_t event_hash(std::string_view queue, std::string_view event) noexcept;

}  // namespace jobq::core
