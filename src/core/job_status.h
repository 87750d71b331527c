// The only list of job statuses. Everything that has one item per status is generated from it: the enums in C++ and
// SQL, columns and comments in the catalog (scripts/install_script.awk), and lists in tests.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace jobq::core {

enum class Phase : std::uint8_t { Waiting, Running, Finished };

// The statuses are ordered by phase, so that an SQL query can use status < 'processing' for waiting jobs and status >
// 'processing' for finished jobs. The columns of the table are the name of a status, its label in SQL, its phase, and a
// description of a job in this status.
// clang-format off
#define JOBQ_JOB_STATUSES(STATUS)                                                                                   \
    STATUS(Scheduled, "scheduled", Waiting, "waits for its run_at")                                                 \
    STATUS(Blocked, "blocked", Waiting, "waits for its dependencies, a signal, other jobs, or earlier jobs of its group") \
    STATUS(Pending, "pending", Waiting, "may be claimed")                                                           \
    STATUS(Processing, "processing", Running, "is held by a worker under a lease")                                  \
    STATUS(Completed, "completed", Finished, "has completed")                                                      \
    STATUS(Failed, "failed", Finished, "has failed permanently")                                                  \
    STATUS(Cancelled, "cancelled", Finished, "has been canceled")
// clang-format on

enum class JobStatus : std::uint8_t {
#define JOBQ_NAME(name, label, phase, does) name,
    JOBQ_JOB_STATUSES(JOBQ_NAME)
#undef JOBQ_NAME
};

struct StatusRow {
    const char *label;
    JobStatus status;
    Phase phase;
};
constexpr StatusRow kJobStatuses[] = {
#define JOBQ_ROW(name, label, phase, does) {label, JobStatus::name, Phase::phase},
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
static_assert(phases_are_in_order(), "waiting statuses come first, then processing, then finished statuses");

// Returns the label of the status, or "unknown" if the value is not a status.
constexpr const char *status_name(JobStatus status) noexcept {
    return static_cast<int>(status) < kJobStatusCount ? kJobStatuses[static_cast<int>(status)].label : "unknown";
}

// Sets `*status` to the status with this label. Returns false, without setting `*status`, if no status has this label.
constexpr bool parse_status(std::string_view label, JobStatus *status) noexcept {
    for (const StatusRow &row : kJobStatuses) {
        if (label != row.label) continue;
        *status = row.status;
        return true;
    }
    return false;
}

}  // namespace jobq::core
