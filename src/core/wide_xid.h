// 64-bit transaction IDs, which are never reused.
#pragma once

#include <cstdint>

namespace jobq::core {

// Returns the largest 64-bit transaction ID that is at most `next` and whose lower 32 bits are `xid`.
constexpr std::uint64_t widen_xid(std::uint32_t xid, std::uint64_t next) noexcept {
    return next - (static_cast<std::uint32_t>(next) - xid);
}

}  // namespace jobq::core
