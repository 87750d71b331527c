// Decides whether jobs may enter a queue with max_depth, and how many others must be dropped for them. Pure.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

// What happens if there is no room for a job. Same order as in core/queue_settings.h.
enum class FullPolicy : std::uint8_t { Reject, DropOldest };

// Maximum number of jobs that a call drops in addition to the number that it adds. After max_depth has been lowered,
// millions may be too many, and a producer must not have to wait for them. Each later call drops another part.
constexpr std::int64_t kMaxExtraDrops = 100;

struct Admission {
    bool admitted;
    std::int64_t drop;    // number of the oldest jobs to drop, if so many can be dropped
    std::int64_t needed;  // minimum number to drop; if fewer can be dropped, the new jobs are rejected
};
static_assert(std::is_trivially_copyable_v<Admission>, "may live where a longjmp skips destructors");

// Decides whether `added` jobs may enter a queue in which `depth` jobs wait. Never admits more jobs at once than the
// queue may hold.
Admission admit(std::int64_t depth, std::int64_t added, std::int64_t max_depth, FullPolicy policy) noexcept;

}  // namespace jobq::core
