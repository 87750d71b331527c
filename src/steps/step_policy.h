// Durable steps: what a name stands for, and what a call that waits is answered. Pure decisions.
#pragma once

#include "core/job.h"
#include "core/life.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxStepBytes = 255;   // of a name
constexpr std::size_t kMaxEventBytes = 255;  // the same

// What a name of a job stands for: it cannot stand for two things. (name, label in SQL)
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
// Whether it is a wait for the end of other jobs.
constexpr bool awaits_jobs(StepKind kind) noexcept { return kind == StepKind::All || kind == StepKind::Any; }
// Whether its row names jobs.
constexpr bool has_jobs(StepKind kind) noexcept { return kind == StepKind::Spawn || awaits_jobs(kind); }
// Which one the mode of jobq_await_jobs means. False when it is none; `*kind` is then left alone.
bool parse_await_mode(std::string_view mode, StepKind *kind) noexcept;
// Whether what it awaits has come, when so many of the jobs have ended.
constexpr bool jobs_have_ended(StepKind kind, int ended, int count) noexcept {
    return kind == StepKind::Any ? ended > 0 : ended == count;
}

// What a step that is saved is for its job. One that was saved before is a sign of life and no progress: what its
// worker does behind it may kill that again and again.
constexpr EventKind event_of_saving(bool known) noexcept { return known ? EventKind::Heartbeat : EventKind::StepSaved; }

enum class StepState : std::uint8_t { Done, Timeout, Waiting };
const char *step_state_name(StepState state) noexcept;
// False when `label` is none; `*state` is then left alone.
bool parse_step_state(std::string_view label, StepState *state) noexcept;

// What a worker is answered that would wait.
enum class WaitAnswer : std::uint8_t { Ready, Timeout, Waiting, Cancelled };
const char *wait_answer_name(WaitAnswer answer) noexcept;

// What there is to decide by.
struct Wait {
    bool come;       // what it awaits is there
    bool cancel;     // a cancellation was asked for
    bool sleeps;     // it awaits a time only: the deadline
    Maybe deadline;  // none: never
};
// Of a wait that has not been decided yet. What has come counts also when it comes behind the deadline: only this call
// decides, and it has not before.
WaitAnswer decide_wait(const Wait &wait, Micros now) noexcept;
// Of one that has.
WaitAnswer decided_wait(StepState state) noexcept;

// In the place of that hash: the job awaits others.
constexpr std::int64_t kAwaitsJobs = -1;
// Whom a signal to a queue concerns: a hash above 0. Two events that have the same one by chance make the jobs that
// await them look in vain.
std::int64_t event_hash(std::string_view queue, std::string_view event) noexcept;

}  // namespace jobq::core
