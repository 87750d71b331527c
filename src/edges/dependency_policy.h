// Dependencies: what the end of one job means to those that wait for it, and how a graph is written. Pure decisions.
#pragma once

#include "core/job.h"

#include <string_view>

namespace jobq::core {

// What a job does when one of its dependencies ends without having completed, by the names that jobq_enqueue documents.
enum class OnDependencyFailure : std::uint8_t { Cancel, Run };
constexpr std::string_view kOnDependencyFailureNames[] = {"cancel", "run"};

// What is known of a dependency.
enum class DependencyState : std::uint8_t {
    Unfinished,
    Completed,
    Failed,
    Cancelled,
    Deleted,  // before it completed
};
DependencyState dependency_state(JobStatus status) noexcept;

// What happened to a dependency, for the error of a job that is cancelled for it: "failed", "was cancelled" or "was
// deleted".
const char *ended_how(DependencyState state) noexcept;

// The error of a job that was cancelled for a dependency, without those between it and the first one that ended: the
// cause must not be lost at the end of a long chain.
std::string_view first_cause(std::string_view error) noexcept;

// Writes text as it stands between the double quotes of a label in Graphviz's language: a quote and a backslash are
// escaped, a line break becomes \n, other control characters a space. `to` has room for twice as many bytes. Returns
// how many were written.
std::size_t write_dot_label(std::string_view text, char *to) noexcept;

}  // namespace jobq::core
