// The second clock of a running job: how long one attempt may take, however often its worker is heard of. Pure.
#pragma once

#include "job/job_policy.h"

#include <string_view>

namespace jobq::core {

// What a max_runtime may be; 0 stands for none.
constexpr Micros kMinMaxRuntime = 10000;  // 10 ms
constexpr Micros kMaxMaxRuntime = 365 * kDay;

// What becomes of an attempt that takes longer.
enum class OnMaxRuntime : std::uint8_t { Fail, Cancel };

// False when `name` is none; `*choice` is then left alone.
bool parse_on_max_runtime(std::string_view name, OnMaxRuntime *choice) noexcept;

// `max_runtime` within its limits, whatever an UPDATE by hand has left there.
Micros bounded_max_runtime(Micros max_runtime) noexcept;

// For how long a claim needs no look: until the first of its two clocks runs out.
Micros first_deadline(Micros heartbeat_timeout, Micros max_runtime) noexcept;

// The attempt took too long. Cancelled when that is what the queue wants or when a cancellation was asked for; else it
// has failed: Scheduled while attempts are left, else Failed.
JobStatus after_overrun(int attempts, int max_attempts, OnMaxRuntime choice, bool cancel_requested) noexcept;

}  // namespace jobq::core
