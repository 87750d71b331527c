// What is known of the emptiness of a lane: ranges of claim keys in which no claimable job is. A claim does not look
// there. The first range usually begins at the very first key and ends where the queue's head is: then it is what the
// literature calls a low-water mark; the others lie behind jobs that somebody holds for long, or between priorities.
#pragma once

#include "core/claim_key.h"

#include <type_traits>

namespace jobq::core {

constexpr int kMaxEmptyRanges = 12;

// The keys from `from` up to, not including, `to`. Nothing lies at kLastKey itself.
struct KeyRange {
    ClaimKey from, to;
};

struct EmptyRange {
    KeyRange keys;
    std::int64_t passed;  // what the knowledge is worth: index entries inside that a claim had to look at, or may have
};

// Sorted, and no two touch.
struct EmptyRanges {
    int count;
    EmptyRange items[kMaxEmptyRanges];
};
static_assert(std::is_trivially_copyable_v<EmptyRanges>, "lives in shared memory");

// The first key at or behind `key` that is in no range; kLastKey when there is none.
ClaimKey skip_empty(const EmptyRanges &ranges, const ClaimKey &key) noexcept;

// The keys at or after `key` that no range covers, up to the next range; empty when there are none.
KeyRange next_possible(const EmptyRanges &ranges, const ClaimKey &key) noexcept;

// A job may be at any key from `first` to `last`, both included: no range contains one of these any more. What is left
// of a range on both sides shares what the range was worth.
void forget_empty(EmptyRanges *ranges, const ClaimKey &first, const ClaimKey &last) noexcept;

// No job is in `keys`; joined with what it touches. With more ranges than there is room for, the one that is worth
// least is forgotten.
void add_empty(EmptyRanges *ranges, const KeyRange &keys, std::int64_t passed) noexcept;

}  // namespace jobq::core
