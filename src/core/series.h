// The name of a series, which is a queue and kind with totals, and the changes that a transaction makes to totals until
// it commits.
//
// Everything has a fixed size. A series that finds no room is counted in one series without a name, so that sums over
// all series are always right. Pure. The changes are part of the transaction log (log/logged.h); metrics/totals.cpp
// uses them.
#pragma once

#include "core/folded.h"
#include "core/metrics.h"

#include <string_view>

namespace jobq::core {

struct SeriesName {
    std::uint8_t queue_bytes;  // 0: the series without a name, for all series that found no room
    std::uint8_t kind_bytes;
    char bytes[kMaxQueueBytes + kMaxKindBytes];

    std::string_view queue() const noexcept { return {bytes, queue_bytes}; }
    std::string_view kind() const noexcept { return {bytes + queue_bytes, kind_bytes}; }
    bool is(std::string_view queue, std::string_view kind) const noexcept {
        return this->queue() == queue && this->kind() == kind;
    }
};
static_assert(kMaxQueueBytes <= 255 && kMaxKindBytes <= 255, "their lengths fit");
// Returns the empty name if a name is too long. Such names can occur only if rows were written with triggers disabled.
SeriesName series_name(std::string_view queue, std::string_view kind) noexcept;
std::uint64_t hash_of_series(std::string_view queue, std::string_view kind) noexcept;

// The changes that a transaction makes to the totals of a series, at one level of subtransactions.
struct SeriesChange {
    SeriesName name;
    std::uint64_t hash;  // hash_of_series()
    int level;
    bool dropped;  // the queue was dropped (without a name: all queues), so its series are removed when the transaction
                   // commits
    SeriesNumbers numbers;
};

struct SeriesLog {
    // Number of entries for series with names. The other entries are for the series without a name, one per level.
    static constexpr int kNamed = 128;
    static constexpr int kRoom = kNamed + 32;

    // A stack, as the numbers of jobs are, because only the innermost subtransaction changes anything.
    Folded<SeriesChange, kRoom, 64> changes;
    bool incomplete;  // a change is missing, because too many savepoints each had too many changes

    // Returns the entry of the series at this level, creating it if necessary; nullptr if there is no room.
    SeriesChange *at(std::string_view queue, std::string_view kind, int level) noexcept;
    // These functions end a level: the first for a rollback, the second for the release of a savepoint.
    void forget_level(int level) noexcept;
    void hand_to_parent(int level) noexcept;
    void clear() noexcept;
};

}  // namespace jobq::core
