// Whether jobs may enter a queue that has a greatest depth, and how many must go for them. Pure.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

// What happens to jobs for which there is no room. In the order of core/queue_settings.h.
enum class FullPolicy : std::uint8_t { Reject, DropOldest };

// So many more than it adds one call drops at most: after max_depth has been lowered it may be millions, which no
// producer shall have to wait for. Each later call drops as many again.
constexpr std::int64_t kMaxExtraDrops = 100;

struct Admission {
    bool admitted;
    std::int64_t drop;    // so many of the oldest, if there are so many that can be dropped
    std::int64_t needed;  // of these: with fewer the new jobs are refused after all
};
static_assert(std::is_trivially_copyable_v<Admission>, "may live where a longjmp skips destructors");

// `added` jobs want to enter a queue in which `depth` jobs wait. More at once than the queue may hold are never
// admitted.
Admission admit(std::int64_t depth, std::int64_t added, std::int64_t max_depth, FullPolicy policy) noexcept;

}  // namespace jobq::core
