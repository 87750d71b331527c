// See empty_ranges_policy.h.
#include "lanes/empty_ranges_policy.h"

#include <algorithm>

namespace jobq::core {

namespace {

void erase(EmptyRanges *ranges, int at) {
    std::copy(ranges->items + at + 1, ranges->items + ranges->count, ranges->items + at);
    ranges->count--;
}

// Returns the index of the range with the lowest value. If several ranges share this value, returns the highest of
// their indexes. `added` is treated as an additional range at the end.
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

// Inserts a range that does not touch any other range.
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

// Returns an estimated upper bound for the number of index entries in a range. The estimate assumes that within a
// priority, jobs with higher keys have higher ids.
std::int64_t most_entries(const KeyRange &keys) {
    const bool known = keys.from.priority == keys.to.priority && keys.from.id >= 0 && keys.from.id <= keys.to.id;
    return known ? keys.to.id - keys.from.id : INT64_MAX;
}

// The values of the two parts into which a range is split. It is unknown how many index entries each part contains, so
// the value of the range is divided between the parts.
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
