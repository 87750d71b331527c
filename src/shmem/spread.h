// Hashes numbers of a database for tables in shared memory: multiplicative hashing by the golden ratio (D. E. Knuth,
// "The Art of Computer Programming", volume 3, section 6.4). Consecutive numbers end up far apart.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns a hash of 32 bits, of which the highest bits are distributed best.
inline uint32 spread(Oid database, int64 number) {
    const uint64 key = static_cast<uint64>(number) + (static_cast<uint64>(database) << 32);
    return static_cast<uint32>((key * UINT64CONST(0x9e3779b97f4a7c15)) >> 32);
}

}  // namespace jobq
