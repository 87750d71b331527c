// Mechanisms that a build can leave out, one at a time, so that the benchmark group `ablation` can measure the value of
// each: make COPT=-DJOBQ_WITHOUT=PlaceCache. The installed library has all of them, and the tests for them cost
// nothing. Purpose and measured value of each mechanism: docs/design.md, "What the mechanisms are worth".
#pragma once

#include <cstdint>

#ifndef JOBQ_WITHOUT
#define JOBQ_WITHOUT None
#endif

namespace jobq::core {

// bench/run.sh builds one library without each of these, except None.
enum class Mechanism : std::uint8_t {
    None,
    RecentClaims,
    YoungLeases,
    ReadAhead,
    PlaceCache,
    DirectDeletion,
    SlotBounds,
    ThrottledRanges,
    ExactRecounts,
};

constexpr bool built_with(Mechanism mechanism) noexcept { return mechanism != Mechanism::JOBQ_WITHOUT; }

}  // namespace jobq::core
