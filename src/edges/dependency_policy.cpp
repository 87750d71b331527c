// See dependency_policy.h.
#include "edges/dependency_policy.h"

namespace jobq::core {

DependencyState dependency_state(JobStatus status) noexcept {
    if (!is_finished(status)) return DependencyState::Unfinished;
    if (status == JobStatus::Completed) return DependencyState::Completed;
    return status == JobStatus::Cancelled ? DependencyState::Cancelled : DependencyState::Failed;
}

const char *ended_how(DependencyState state) noexcept {
    constexpr const char *kHow[] = {"has not ended", "has not ended", "failed", "was cancelled", "was deleted"};
    return kHow[static_cast<int>(state)];
}

std::string_view first_cause(std::string_view error) noexcept {
    constexpr std::string_view kDependency = "dependency ", kCancelled = " was cancelled: ";
    while (error.substr(0, kDependency.size()) == kDependency) {
        const std::size_t end = error.find_first_not_of("0123456789", kDependency.size());
        if (end == std::string_view::npos || error.substr(end, kCancelled.size()) != kCancelled) break;
        const std::string_view rest = error.substr(end + kCancelled.size());
        if (rest.substr(0, kDependency.size()) != kDependency) break;
        error = rest;
    }
    return error;
}

std::size_t write_dot_label(std::string_view text, char *to) noexcept {
    char *at = to;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\' || c == '\n') *at++ = '\\';
        if (c == '\n')
            *at++ = 'n';
        else
            *at++ = byte < ' ' || byte == 0x7f ? ' ' : c;
    }
    return static_cast<std::size_t>(at - to);
}

}  // namespace jobq::core
