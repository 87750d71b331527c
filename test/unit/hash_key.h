// The secret under which tests hash: the key of SipHash's published test vectors, bytes 0x00 to 0x0f.
#pragma once

#include "core/keyed_hash.h"

namespace jobq::core {

constexpr HashKey kTestSecret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
constexpr HashKey kOtherSecret = {0x0706050403020101, 0x0f0e0d0c0b0a0908};

}  // namespace jobq::core
