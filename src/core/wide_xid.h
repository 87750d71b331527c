// Transaction numbers in 64 bits, which are never reused.
#pragma once

#include <cstdint>

namespace jobq::core {

// Returns the largest number that is not later than `next` and whose lower half is `xid`.
constexpr std::uint64_t widen_xid(std::uint32_t xid, std::uint64_t next) noexcept {
    return next - (static_cast<std::uint32_t>(next) - xid);
}

}  // namespace jobq::core
