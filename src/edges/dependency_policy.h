// Pure functions about dependencies: what the end of a job means for its dependents, and how a graph of jobs is
// written.
#pragma once

#include "core/job.h"

#include <string_view>

namespace jobq::core {

// What happens to a job if one of its dependencies ends without completing. The names are those that jobq_enqueue
// documents.
enum class OnDependencyFailure : std::uint8_t { Cancel, Run };
constexpr std::string_view kOnDependencyFailureNames[] = {"cancel", "run"};

// The state of a dependency.
enum class DependencyState : std::uint8_t {
    Unfinished,
    Completed,
    Failed,
    Cancelled,
    Deleted,  // before it completed
};
DependencyState dependency_state(JobStatus status) noexcept;

// Returns what happened to a dependency, for the error of a job that is cancelled because of it: "failed", "was
// cancelled" or "was deleted".
const char *ended_how(DependencyState state) noexcept;

// Returns the part of a cancelled job's error that describes the original failure. In a chain of cancelled jobs, each
// error contains the error of the job before it; skipping the jobs in between keeps the cause from being cut off in a
// long chain.
std::string_view first_cause(std::string_view error) noexcept;

// Writes text that can be put in the double quotes of a label in Graphviz's language: escapes quotes and backslashes,
// and writes a line break as \n and other control characters as a space. `to` must have room for twice as many bytes.
// Returns how many bytes were written.
std::size_t write_dot_label(std::string_view text, char *to) noexcept;

}  // namespace jobq::core
