// Admission to a queue with a greatest depth: see backpressure_policy.h.
#include "core/backpressure.h"

#include <algorithm>

namespace jobq::core {

Admission admit(std::int64_t depth, std::int64_t added, std::int64_t max_depth, FullPolicy policy) noexcept {
    if (added > max_depth) return {false, 0, 0};
    // Counters are added to one by one, so that a reader may find a sum below zero.
    const std::int64_t excess = std::max<std::int64_t>(depth, 0) - (max_depth - added);
    if (excess <= 0) return {true, 0, 0};
    if (policy == FullPolicy::Reject) return {false, 0, 0};
    // As long as no more come in than go out, the queue does not grow.
    return {true, std::min(excess, added + kMaxExtraDrops), std::min(excess, added)};
}

}  // namespace jobq::core
