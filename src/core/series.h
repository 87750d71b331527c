// Defines the names of series, and collects the changes that a transaction makes to series until the transaction
// commits. A series consists of the totals of one queue and kind.
//
// All structs have a fixed size. If there is no room for a series, its changes are added to a series without a name, so
// that sums over all series are always correct. The changes are part of the transaction log (log/logged.h), and
// metrics/totals.cpp reads them at the commit.
#pragma once

#include "core/folded.h"
#include "core/metrics.h"

#include <string_view>

namespace jobq::core {

struct SeriesName {
    std::uint8_t queue_bytes;  // 0: the series without a name, for all series for which there was no room
    std::uint8_t kind_bytes;
    char bytes[kMaxQueueBytes + kMaxKindBytes];

    std::string_view queue() const noexcept { return {bytes, queue_bytes}; }
    std::string_view kind() const noexcept { return {bytes + queue_bytes, kind_bytes}; }
    bool is(std::string_view queue, std::string_view kind) const noexcept {
        return this->queue() == queue && this->kind() == kind;
    }
};
static_assert(kMaxQueueBytes <= 255 && kMaxKindBytes <= 255, "their lengths fit");
// Returns the name of a series, or the empty name if the queue or the kind is too long. Names that are too long can
// occur only if rows were written with triggers disabled.
SeriesName series_name(std::string_view queue, std::string_view kind) noexcept;

// The changes that a transaction makes to the totals of a series, at one level of subtransactions.
struct SeriesChange {
    SeriesName name;
    std::uint64_t hash;  // stable_hash() of its names
    int level;
    bool dropped;  // the queue was dropped (without a name: all queues), so its series are removed when the transaction
                   // commits
    SeriesNumbers numbers;
};

struct SeriesLog {
    // Number of entries for named series. Each of the other entries is for the unnamed series of one nesting level of
    // subtransactions.
    static constexpr int kNamed = 128;
    static constexpr int kRoom = kNamed + 32;

    // Used as a stack, because only the innermost subtransaction adds and removes entries.
    Folded<SeriesChange, kRoom, 64> changes;
    bool incomplete;  // a change is missing, because there was no room even for another entry without a name

    // Returns the entry of the series at this level, and creates the entry if necessary. Returns nullptr if there is no
    // room.
    SeriesChange *at(std::string_view queue, std::string_view kind, int level) noexcept;
    // These functions end a level of subtransactions: forget_level() if the subtransaction is rolled back, and
    // hand_to_parent() if its savepoint is released.
    void forget_level(int level) noexcept;
    void hand_to_parent(int level) noexcept;
    void clear() noexcept;
};

}  // namespace jobq::core
