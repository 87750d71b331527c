// See max_runtime.h.
#include "core/max_runtime.h"

#include "core/retry.h"

#include <algorithm>

namespace jobq::core {

Micros first_deadline(Micros heartbeat_timeout, Micros max_runtime) noexcept {
    return max_runtime > 0 ? std::min(heartbeat_timeout, max_runtime) : heartbeat_timeout;
}

JobStatus after_overrun(int attempts, int max_attempts, OnMaxRuntime choice, bool cancel_requested) noexcept {
    if (choice == OnMaxRuntime::Cancel) return JobStatus::Cancelled;
    return after_failure(attempts, max_attempts, true, cancel_requested);
}

}  // namespace jobq::core
