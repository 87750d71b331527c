// See series.h.
#include "core/series.h"

#include "core/stable_hash.h"

#include <algorithm>

namespace jobq::core {

namespace {

constexpr SeriesName kNoName = {};

SeriesChange *find(SeriesLog *log, std::uint64_t hash, std::string_view queue, std::string_view kind,
                   int level) noexcept {
    return log->changes.find(
        hash, [&](const SeriesChange &known) { return known.level == level && known.name.is(queue, kind); });
}

}  // namespace

SeriesName series_name(std::string_view queue, std::string_view kind) noexcept {
    if (queue.size() > kMaxQueueBytes || kind.size() > kMaxKindBytes) return kNoName;
    SeriesName name = {static_cast<std::uint8_t>(queue.size()), static_cast<std::uint8_t>(kind.size()), {}};
    std::copy(queue.begin(), queue.end(), name.bytes);
    std::copy(kind.begin(), kind.end(), name.bytes + queue.size());
    return name;
}

SeriesChange *SeriesLog::at(std::string_view queue, std::string_view kind, int level) noexcept {
    // Usually, the series is the same as in the previous call.
    if (changes.count > 0) {
        SeriesChange *last = changes.end() - 1;
        if (last->level == level && last->name.is(queue, kind)) return last;
    }
    auto hash = static_cast<std::uint64_t>(stable_hash(queue, kind));
    SeriesChange *change = find(this, hash, queue, kind, level);
    if (change != nullptr) return change;
    const SeriesName name = changes.count < kNamed ? series_name(queue, kind) : kNoName;
    if (name.queue_bytes == 0) {
        hash = static_cast<std::uint64_t>(stable_hash({}, {}));
        change = find(this, hash, {}, {}, level);
        if (change != nullptr) return change;
    }
    change = changes.add(hash, {.name = name, .hash = hash, .level = level, .dropped = false, .numbers = {}});
    if (change == nullptr) incomplete = true;
    return change;
}

void SeriesLog::forget_level(int level) noexcept {
    while (changes.count > 0 && changes.items[changes.count - 1].level >= level) changes.pop();
}

void SeriesLog::hand_to_parent(int level) noexcept {
    const int end = changes.count;
    forget_level(level);
    // An added entry can overwrite only entries that this loop has already read.
    for (int i = changes.count; i < end; i++) {
        const SeriesChange change = changes.items[i];
        SeriesChange *parent = at(change.name.queue(), change.name.kind(), level - 1);
        if (parent == nullptr) continue;
        parent->dropped |= change.dropped;
        add_numbers(&parent->numbers, change.numbers);
    }
}

void SeriesLog::clear() noexcept {
    changes.clear();
    incomplete = false;
}

}  // namespace jobq::core
