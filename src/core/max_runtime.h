// max_runtime, the second clock of a running job: how long one attempt may take, no matter how often its worker sends
// heartbeats. Pure.
#pragma once

#include "core/job.h"

namespace jobq::core {

// What happens to an attempt that takes longer. Same order as in core/queue_settings.h.
enum class OnMaxRuntime : std::uint8_t { Fail, Cancel };

// Returns how long a claim needs no check: until the first of its two clocks expires.
Micros first_deadline(Micros heartbeat_timeout, Micros max_runtime) noexcept;

// Returns the status after an attempt took too long: Cancelled if the queue's setting says so or a cancellation was
// requested; otherwise the attempt has failed, and the job is Scheduled while attempts are left, else Failed.
JobStatus after_overrun(int attempts, int max_attempts, OnMaxRuntime choice, bool cancel_requested) noexcept;

}  // namespace jobq::core
