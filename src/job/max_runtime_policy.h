// The second clock of a running job: how long one attempt may take, however often its worker is heard of. Pure.
#pragma once

#include "job/job_policy.h"

namespace jobq::core {

// What becomes of an attempt that takes longer. In the order of queues/queue_settings_policy.h.
enum class OnMaxRuntime : std::uint8_t { Fail, Cancel };

// For how long a claim needs no look: until the first of its two clocks runs out.
Micros first_deadline(Micros heartbeat_timeout, Micros max_runtime) noexcept;

// The attempt took too long. Cancelled when that is what the queue wants or when a cancellation was asked for; else it
// has failed: Scheduled while attempts are left, else Failed.
JobStatus after_overrun(int attempts, int max_attempts, OnMaxRuntime choice, bool cancel_requested) noexcept;

}  // namespace jobq::core
