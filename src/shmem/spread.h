// Hashes a number that belongs to a database, for tables in shared memory. Uses multiplicative hashing by the golden
// ratio (D. E. Knuth, "The Art of Computer Programming", volume 3, section 6.4), which spreads consecutive numbers far
// apart.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns a 32-bit hash. Its highest bits are the best distributed.
inline uint32 spread(Oid database, int64 number) {
    const uint64 key = static_cast<uint64>(number) + (static_cast<uint64>(database) << 32);
    return static_cast<uint32>((key * UINT64CONST(0x9e3779b97f4a7c15)) >> 32);
}

}  // namespace jobq
