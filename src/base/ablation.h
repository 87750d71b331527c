// Mechanisms that a build can leave out, one at a time, so that the benchmark's group `ablation` can tell what each is
// worth: make COPT=-DJOBQ_WITHOUT=PlaceCache. What is installed has all of them; the test of one costs it nothing.
// What each is for, and what it was found to be worth: docs/design.md, "What the mechanisms are worth".
#pragma once

#include <cstdint>

#ifndef JOBQ_WITHOUT
#define JOBQ_WITHOUT None
#endif

namespace jobq::core {

// bench/run.sh builds one without each of these lines, but for the first.
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
