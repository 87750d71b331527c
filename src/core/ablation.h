// Mechanisms that a build can omit, one at a time, so that the benchmark group `ablation` can measure the value of
// each. Example: make COPT=-DJOBQ_WITHOUT=PlaceCache. The installed library contains all mechanisms, and checking for a
// mechanism costs nothing at run time, because built_with() is a constant expression. See docs/internals/costs.md,
// "What the mechanisms are worth", for the purpose and measured value of each mechanism.
#pragma once

#include <cstdint>

#ifndef JOBQ_WITHOUT
#define JOBQ_WITHOUT None
#endif

namespace jobq::core {

// For each mechanism except None, bench/run.sh builds a library without it.
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
    LineStarts,
};

constexpr bool built_with(Mechanism mechanism) noexcept { return mechanism != Mechanism::JOBQ_WITHOUT; }

}  // namespace jobq::core
