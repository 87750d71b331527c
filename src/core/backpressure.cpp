// Admission to a queue with max_depth: see backpressure.h.
#include "core/backpressure.h"

#include <algorithm>

namespace jobq::core {

Admission admit(std::int64_t depth, std::int64_t added, std::int64_t max_depth, FullPolicy policy) noexcept {
    if (added > max_depth) return {false, 0, 0};
    // The counters are updated one after the other, so a reader may see a negative sum.
    const std::int64_t excess = std::max<std::int64_t>(depth, 0) - (max_depth - added);
    if (excess <= 0) return {true, 0, 0};
    if (policy == FullPolicy::Reject) return {false, 0, 0};
    // The queue does not grow as long as at least as many jobs are dropped as are added.
    return {true, std::min(excess, added + kMaxExtraDrops), std::min(excess, added)};
}

}  // namespace jobq::core
