// The statuses of a job: the one list of them. What is the same for each of them follows from it: the enum here and the
// one in SQL, columns by status and comments of the catalogue (scripts/install_script.awk), lists in tests. Used by
// every layer above. Pure.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace jobq::core {

enum class Phase : std::uint8_t { Waiting, Running, Finished };

// By phase, so that SQL can say status < 'processing' of those that wait and status > 'processing' of those that have
// finished: (name, label in SQL, phase, what such a job does).
// clang-format off
#define JOBQ_JOB_STATUSES(STATUS)                                                                                   \
    STATUS(Scheduled, "scheduled", Waiting, "waits for its time")                                                   \
    STATUS(Blocked, "blocked", Waiting, "waits for its dependencies, for a signal, for other jobs it awaits, or behind the head of its group") \
    STATUS(Pending, "pending", Waiting, "may be claimed")                                                           \
    STATUS(Processing, "processing", Running, "is held by a worker under a lease")                                  \
    STATUS(Completed, "completed", Finished, "has been done")                                                       \
    STATUS(Failed, "failed", Finished, "has failed for good")                                                       \
    STATUS(Cancelled, "cancelled", Finished, "is not to be done")
// clang-format on

enum class JobStatus : std::uint8_t {
#define JOBQ_NAME(name, label, phase, does) name,
    JOBQ_JOB_STATUSES(JOBQ_NAME)
#undef JOBQ_NAME
};

struct StatusRow {
    const char *label;
    const char *does;
    JobStatus status;
    Phase phase;
};
constexpr StatusRow kJobStatuses[] = {
#define JOBQ_ROW(name, label, phase, does) {label, does, JobStatus::name, Phase::phase},
    JOBQ_JOB_STATUSES(JOBQ_ROW)
#undef JOBQ_ROW
};
constexpr int kJobStatusCount = static_cast<int>(std::size(kJobStatuses));

constexpr bool is_waiting(JobStatus status) noexcept { return status < JobStatus::Processing; }
constexpr bool is_finished(JobStatus status) noexcept { return status > JobStatus::Processing; }

constexpr bool phases_are_in_order() noexcept {
    for (const StatusRow &row : kJobStatuses)
        if ((row.phase == Phase::Waiting) != is_waiting(row.status) ||
            (row.phase == Phase::Finished) != is_finished(row.status))
            return false;
    return true;
}
static_assert(phases_are_in_order(), "those that wait come first, then processing, then those that have finished");

// Of a value that is none it is "unknown".
constexpr const char *status_name(JobStatus status) noexcept {
    return static_cast<int>(status) < kJobStatusCount ? kJobStatuses[static_cast<int>(status)].label : "unknown";
}

// "it " and this.
constexpr const char *what_it_does(JobStatus status) noexcept { return kJobStatuses[static_cast<int>(status)].does; }

// False when `label` is none; `*status` is then left alone.
constexpr bool parse_status(std::string_view label, JobStatus *status) noexcept {
    for (const StatusRow &row : kJobStatuses) {
        if (label != row.label) continue;
        *status = row.status;
        return true;
    }
    return false;
}

}  // namespace jobq::core
