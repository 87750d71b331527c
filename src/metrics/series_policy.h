// A queue and kind of whose jobs totals are kept, and what a transaction changes of such totals until it commits.
//
// All of fixed size. What finds no room by its name is counted without one, as one series for all of it; so sums over
// all series are always right. Pure; part of the log of the transaction (job/logged.h), and used by metrics/totals.cpp.
#pragma once

#include "base/folded.h"
#include "metrics/metrics_policy.h"

#include <string_view>

namespace jobq::core {

struct SeriesName {
    std::uint8_t queue_bytes;  // 0: no name, of those that found no room
    std::uint8_t kind_bytes;
    char bytes[kMaxQueueBytes + kMaxKindBytes];

    std::string_view queue() const noexcept { return {bytes, queue_bytes}; }
    std::string_view kind() const noexcept { return {bytes + queue_bytes, kind_bytes}; }
    bool is(std::string_view queue, std::string_view kind) const noexcept {
        return this->queue() == queue && this->kind() == kind;
    }
};
static_assert(kMaxQueueBytes <= 255 && kMaxKindBytes <= 255, "their lengths fit");
// No name where one is too long: such names come in with triggers disabled only.
SeriesName series_name(std::string_view queue, std::string_view kind) noexcept;
std::uint64_t hash_of_series(std::string_view queue, std::string_view kind) noexcept;

// By how much a transaction changes the totals of a series, at one level of nested transactions.
struct SeriesChange {
    SeriesName name;
    std::uint64_t hash;  // hash_of_series()
    int level;
    bool dropped;  // its queue is, without a name all of them: so are their series when the transaction commits
    SeriesNumbers numbers;
};

struct SeriesLog {
    // Of the places, so many are for series by their names; the others are for one without a name on each level.
    static constexpr int kNamed = 128;
    static constexpr int kRoom = kNamed + 32;

    // A stack, as numbers of jobs are: only the innermost subtransaction changes anything.
    Folded<SeriesChange, kRoom, 64> changes;
    bool incomplete;  // something is not in it: the savepoints were too many, and each had too much

    // Where the series is changed at this level; nullptr: nowhere.
    SeriesChange *at(std::string_view queue, std::string_view kind, int level) noexcept;
    // A rollback; the end of a savepoint that stays.
    void forget_level(int level) noexcept;
    void hand_to_parent(int level) noexcept;
    void clear() noexcept;
};

}  // namespace jobq::core
