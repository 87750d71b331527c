// States, limits and saturating arithmetic: see job.h.
#include "job/job_policy.h"

#include <climits>
#include <cstring>

namespace jobq::core {

namespace {

constexpr const char *kStatusNames[kJobStatusCount] = {"scheduled", "blocked", "pending",  "processing",
                                                       "completed", "failed",  "cancelled"};

constexpr int kLeaseBits = 53;

}  // namespace

const char *status_name(JobStatus status) noexcept {
    const auto index = static_cast<std::size_t>(status);
    return index < static_cast<std::size_t>(kJobStatusCount) ? kStatusNames[index] : "unknown";
}

bool parse_status(const char *label, JobStatus *status) noexcept {
    if (label == nullptr) return false;
    for (int i = 0; i < kJobStatusCount; i++) {
        if (std::strcmp(label, kStatusNames[i]) == 0) {
            *status = static_cast<JobStatus>(i);
            return true;
        }
    }
    return false;
}

bool is_waiting(JobStatus status) noexcept {
    return status == JobStatus::Scheduled || status == JobStatus::Blocked || status == JobStatus::Pending;
}

bool is_finished(JobStatus status) noexcept {
    return status == JobStatus::Completed || status == JobStatus::Failed || status == JobStatus::Cancelled;
}

std::int64_t lease_from_random(std::uint64_t random) noexcept {
    const auto lease = static_cast<std::int64_t>(random >> (64 - kLeaseBits));
    return lease == 0 ? 1 : lease;
}

Micros saturating_add(Micros a, Micros b) noexcept {
    // The tests come before the sum, since the overflow itself would be undefined.
    if (b >= 0) {
        if (a > kLatest - b) return kLatest;
        const Micros sum = a + b;
        return sum < -kLatest ? -kLatest : sum;
    }
    if (a < -kLatest - b) return -kLatest;
    const Micros sum = a + b;
    return sum > kLatest ? kLatest : sum;
}

Micros saturating_subtract(Micros a, Micros b) noexcept {
    // INT64_MIN has no negative.
    if (b == INT64_MIN) return saturating_add(saturating_add(a, INT64_MAX), 1);
    return saturating_add(a, -b);
}

int heartbeat_seconds(Micros timeout) noexcept {
    const Micros seconds = timeout / 3 / kSecond;
    if (seconds < 1) return 1;
    return seconds > INT_MAX ? INT_MAX : static_cast<int>(seconds);
}

}  // namespace jobq::core
