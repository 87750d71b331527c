// Numbers of transactions in 64 bits, which never come again.
#pragma once

#include <cstdint>

namespace jobq::core {

// The number whose lower half is `xid`, not later than `next`.
constexpr std::uint64_t widen_xid(std::uint32_t xid, std::uint64_t next) noexcept {
    return next - (static_cast<std::uint32_t>(next) - xid);
}

}  // namespace jobq::core
