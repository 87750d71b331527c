// Ranges of claim keys in a lane that contain no claimable job, so that claims skip them. The first range usually
// starts at the first key and ends at the head of the queue, which makes its end a low watermark. The others lie after
// jobs that a transaction holds for long, or between priorities.
#pragma once

#include "core/claim_key.h"

#include <type_traits>

namespace jobq::core {

constexpr int kMaxEmptyRanges = 12;

// The keys from `from` up to `to`, excluding `to`. No key equals kLastKey.
struct KeyRange {
    ClaimKey from, to;
};

struct EmptyRange {
    KeyRange keys;
    std::int64_t passed;  // value of the range: index entries in it that a claim had to pass, or may have had to
};

// The ranges are sorted, and no two touch.
struct EmptyRanges {
    int count;
    EmptyRange items[kMaxEmptyRanges];
};
static_assert(std::is_trivially_copyable_v<EmptyRanges>, "lives in shared memory");

// Returns the first key at or after `key` that is in no range, or kLastKey if there is none.
ClaimKey skip_empty(const EmptyRanges &ranges, const ClaimKey &key) noexcept;

// Returns the keys at or after `key` that no range covers, up to the next range; empty if there are none.
KeyRange next_possible(const EmptyRanges &ranges, const ClaimKey &key) noexcept;

// Removes the keys from `first` to `last` (both included) from the ranges, because a job may be there. The parts that
// remain on both sides share the value of the range.
void forget_empty(EmptyRanges *ranges, const ClaimKey &first, const ClaimKey &last) noexcept;

// Adds an empty range and joins it with the ranges that it touches. If there are too many ranges, drops the least
// valuable one.
void add_empty(EmptyRanges *ranges, const KeyRange &keys, std::int64_t passed) noexcept;

}  // namespace jobq::core
