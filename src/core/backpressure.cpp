// See backpressure.h.
#include "core/backpressure.h"

#include <algorithm>

namespace jobq::core {

Admission admit(std::int64_t depth, std::int64_t added, std::int64_t max_depth, FullPolicy policy) noexcept {
    if (added > max_depth) return {false, 0, 0};
    // The counters are updated one after the other, so a caller that reads them between two updates might compute a
    // negative depth.
    const std::int64_t excess = std::max<std::int64_t>(depth, 0) - (max_depth - added);
    if (excess <= 0) return {true, 0, 0};
    if (policy == FullPolicy::Reject) return {false, 0, 0};
    // It is enough to drop as many jobs as the call adds, because the queue then does not grow.
    return {true, std::min(excess, added + kMaxExtraDrops), std::min(excess, added)};
}

}  // namespace jobq::core
