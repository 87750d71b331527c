// See empty_ranges_policy.h.
#include "lanes/empty_ranges_policy.h"

#include <algorithm>

namespace jobq::core {

namespace {

void erase(EmptyRanges *ranges, int at) {
    std::copy(ranges->items + at + 1, ranges->items + ranges->count, ranges->items + at);
    ranges->count--;
}

// Returns the index of the least valuable range, the last one among equals. `added` counts as one more range at the
// end.
int least_valuable(const EmptyRanges &ranges, const EmptyRange &added) {
    int least = ranges.count;
    std::int64_t value = added.passed;
    for (int i = ranges.count - 1; i >= 0; i--) {
        if (ranges.items[i].passed >= value) continue;
        least = i;
        value = ranges.items[i].passed;
    }
    return least;
}

// Inserts a range that touches none of the others.
void insert(EmptyRanges *ranges, const EmptyRange &added) {
    if (ranges->count == kMaxEmptyRanges) {
        const int least = least_valuable(*ranges, added);
        if (least == ranges->count) return;
        erase(ranges, least);
    }
    EmptyRange *end = ranges->items + ranges->count;
    EmptyRange *place =
        std::find_if(ranges->items, end, [&](const EmptyRange &known) { return added.keys.from < known.keys.from; });
    std::copy_backward(place, end, end + 1);
    *place = added;
    ranges->count++;
}

// Returns an upper bound of the index entries in a range. This is a guess that assumes that ids ascend with the keys
// within a priority.
std::int64_t most_entries(const KeyRange &keys) {
    const bool known = keys.from.priority == keys.to.priority && keys.from.id >= 0 && keys.from.id <= keys.to.id;
    return known ? keys.to.id - keys.from.id : INT64_MAX;
}

// The values of the two parts that remain of a range. It is unknown where the entries of a range lie, so its value is
// divided such that the parts are never worth more than the whole.
struct Shares {
    std::int64_t before, behind;
};

Shares share(std::int64_t passed, const KeyRange &before, const KeyRange &behind) {
    const std::int64_t most_before = most_entries(before), most_behind = most_entries(behind);
    if (before.to <= before.from) return {0, std::min(passed, most_behind)};
    if (behind.to <= behind.from) return {std::min(passed, most_before), 0};
    Shares shares;
    shares.before =
        most_before < INT64_MAX ? std::min(passed, most_before) : passed - std::min(passed / 2, most_behind);
    shares.behind = std::min(passed - shares.before, most_behind);
    return shares;
}

}  // namespace

ClaimKey skip_empty(const EmptyRanges &ranges, const ClaimKey &key) noexcept {
    for (int i = 0; i < ranges.count; i++) {
        const KeyRange &keys = ranges.items[i].keys;
        if (key < keys.from) break;
        if (key < keys.to) return keys.to;
    }
    return key;
}

KeyRange next_possible(const EmptyRanges &ranges, const ClaimKey &key) noexcept {
    KeyRange keys = {skip_empty(ranges, key), kLastKey};
    for (int i = ranges.count - 1; i >= 0 && keys.from < ranges.items[i].keys.from; i--)
        keys.to = ranges.items[i].keys.from;
    return keys;
}

void forget_empty(EmptyRanges *ranges, const ClaimKey &first, const ClaimKey &last) noexcept {
    for (int i = 0; i < ranges->count;) {
        const EmptyRange cut = ranges->items[i];
        if (last < cut.keys.from) return;
        if (cut.keys.to <= first) {
            i++;
            continue;
        }
        erase(ranges, i);
        const KeyRange before = {cut.keys.from, first};
        const KeyRange behind = {next_key(last), cut.keys.to};
        const Shares worth = share(cut.passed, before, behind);
        if (before.from < before.to) {
            insert(ranges, {before, worth.before});
            i++;
        }
        if (behind.from < behind.to) {
            insert(ranges, {behind, worth.behind});
            return;
        }
    }
}

void add_empty(EmptyRanges *ranges, const KeyRange &keys, std::int64_t passed) noexcept {
    if (keys.to <= keys.from) return;
    EmptyRange joined = {keys, passed};
    for (int i = 0; i < ranges->count;) {
        const EmptyRange &known = ranges->items[i];
        if (known.keys.to < joined.keys.from || joined.keys.to < known.keys.from) {
            i++;
            continue;
        }
        joined.keys.from = std::min(joined.keys.from, known.keys.from);
        joined.keys.to = std::max(joined.keys.to, known.keys.to);
        joined.passed = saturating_add(joined.passed, known.passed);
        erase(ranges, i);
    }
    insert(ranges, joined);
}

}  // namespace jobq::core
