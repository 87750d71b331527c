// The setting max_runtime limits how long one attempt may take, no matter how often its worker sends heartbeats.
// Another setting, heartbeat_timeout, limits the time between two heartbeats.
#pragma once

#include "core/job.h"

namespace jobq::core {

// What happens to an attempt that exceeds max_runtime. The values have the same order as the words of the setting
// on_max_runtime in core/queue_settings.h.
enum class OnMaxRuntime : std::uint8_t { Fail, Cancel };

// Returns the time after a claim during which the job need not be checked: the shorter of the heartbeat timeout and
// max_runtime. A max_runtime of 0 means unlimited.
Micros first_deadline(Micros heartbeat_timeout, Micros max_runtime) noexcept;

// Returns the status of a job whose attempt exceeded max_runtime: Cancelled if `choice` is Cancel or a cancellation was
// requested; otherwise Scheduled if attempts are left, and Failed if no attempts are left.
JobStatus after_overrun(int attempts, int max_attempts, OnMaxRuntime choice, bool cancel_requested) noexcept;

}  // namespace jobq::core
