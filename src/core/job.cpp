// See job.h.
#include "core/job.h"

#include <climits>

namespace jobq::core {

namespace {

constexpr int kLeaseBits = 53;

}  // namespace

std::int64_t lease_from_random(std::uint64_t random) noexcept {
    const auto lease = static_cast<std::int64_t>(random >> (64 - kLeaseBits));
    return lease == 0 ? 1 : lease;
}

int heartbeat_seconds(Micros timeout) noexcept {
    const Micros seconds = timeout / 3 / kSecond;
    if (seconds < 1) return 1;
    return seconds > INT_MAX ? INT_MAX : static_cast<int>(seconds);
}

}  // namespace jobq::core
