// max_runtime limits how long one attempt may take, no matter how often its worker sends heartbeats. (The other limit
// of a running job is heartbeat_timeout.) Pure.
#pragma once

#include "core/job.h"

namespace jobq::core {

// What happens to an attempt that exceeds max_runtime. The values have the same order as the words of on_max_runtime in
// core/queue_settings.h.
enum class OnMaxRuntime : std::uint8_t { Fail, Cancel };

// Returns how long after its claim a job needs no check: the shorter of the two limits. A max_runtime of 0 means
// unlimited.
Micros first_deadline(Micros heartbeat_timeout, Micros max_runtime) noexcept;

// Returns the status of a job whose attempt exceeded max_runtime: Cancelled if `choice` is Cancel or a cancellation was
// requested; otherwise Scheduled if attempts are left, and Failed if not.
JobStatus after_overrun(int attempts, int max_attempts, OnMaxRuntime choice, bool cancel_requested) noexcept;

}  // namespace jobq::core
