// Ranges of claim keys that contain no claimable job of a lane. Claims skip these ranges. The first range usually
// starts at the first key and ends at the first claimable job, so its end is a low watermark. The other ranges lie
// after jobs that a transaction keeps locked for a long time, or between priorities.
#pragma once

#include "core/claim_key.h"

#include <type_traits>

namespace jobq::core {

constexpr int kMaxEmptyRanges = 12;

// The keys from `from` up to, but not including, `to`. No job has the key kLastKey.
struct KeyRange {
    ClaimKey from, to;
};

struct EmptyRange {
    KeyRange keys;
    // Value of the range: the known or estimated number of dead index entries in the range, which claims would
    // otherwise have to pass.
    std::int64_t passed;
};

// The ranges are sorted and do not overlap or touch.
struct EmptyRanges {
    int count;
    EmptyRange items[kMaxEmptyRanges];
};
static_assert(std::is_trivially_copyable_v<EmptyRanges>, "lives in shared memory");

// Returns the first key at or after `key` that is in no range, or kLastKey if there is no such key.
ClaimKey skip_empty(const EmptyRanges &ranges, const ClaimKey &key) noexcept;

// Returns the first interval of keys at or after `key` that are in no range. The interval ends where the next range
// starts. Returns an empty interval if there are no such keys.
KeyRange next_possible(const EmptyRanges &ranges, const ClaimKey &key) noexcept;

// Removes the keys from `first` to `last` (both included) from the ranges, because a job might have such a key. If a
// range is split, its two parts share its value.
void forget_empty(EmptyRanges *ranges, const ClaimKey &first, const ClaimKey &last) noexcept;

// Adds an empty range and joins it with the ranges that it touches. If there are then too many ranges, drops the range
// with the lowest value.
void add_empty(EmptyRanges *ranges, const KeyRange &keys, std::int64_t passed) noexcept;

}  // namespace jobq::core
