// Pure functions for dependencies. They define what the end of a job means for its dependents, and they format the
// labels in a graph of jobs.
#pragma once

#include "core/job.h"

#include <string_view>

namespace jobq::core {

// What happens to a job if one of its dependencies ends without completing. The documentation of jobq_enqueue uses the
// same names.
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

// Returns what happened to a dependency, for the error of a job that is canceled because of it: "failed", "was
// cancelled", or "was deleted".
const char *ended_how(DependencyState state) noexcept;

// Returns the part of a canceled job's error that describes the original failure. In a chain of canceled jobs, each
// error contains the error of the previous job. The function skips the errors of the jobs between the original failure
// and this job, so that the original failure is not cut off if the chain is long.
std::string_view first_cause(std::string_view error) noexcept;

// Writes the text in the form that it must have between the double quotes of a label in Graphviz's language: escapes
// quotes and backslashes, and replaces a line break with \n and any other control character with a space. `to` must
// have room for twice as many bytes as the text has. Returns the number of bytes written.
std::size_t write_dot_label(std::string_view text, char *to) noexcept;

}  // namespace jobq::core
