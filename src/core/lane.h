// A lane consists of all jobs that have the same queue, kind, version, requires, and limits. A worker that may take one
// job of a lane may take all of them, and all of them count toward the same limits of kinds and named limits.
#pragma once

#include "core/keyed_hash.h"

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace jobq::core {

// Returns the number of a lane, which is a keyed hash of its parts. `requires_sorted` must be sorted bytewise and
// contain no duplicates, because a lane is identified by the set of its requirements. The same applies to
// `limits_sorted`. The hash covers Numbered::Lane (1 byte), `queue`, `kind`, `version`, `requires_count`, and the
// requirements, and if the jobs name limits, also `limits_count` and the names. Each string is preceded by its length.
// The lengths, `version`, and the counts have 4 bytes each, least significant byte first.
std::int64_t lane_hash(const HashKey &secret, std::string_view queue, std::string_view kind, std::int32_t version,
                       const std::string_view *requires_sorted, int requires_count,
                       const std::string_view *limits_sorted = nullptr, int limits_count = 0) noexcept;

// Sorts the items bytewise and removes duplicates, in place. Returns the new number of items.
int canonical_set(std::string_view *items, int count) noexcept;

// The jobs that a worker may take. nullptr means "any" for kinds and versions, and "none" for capabilities. An empty
// list that is not nullptr matches nothing.
struct WorkerFilter {
    const std::string_view *kinds;  // null: any
    int kind_count;
    const std::int32_t *versions;  // null: any
    int version_count;
    const std::string_view *capabilities;  // canonical set; may be null when the count is 0
    int capability_count;
};
static_assert(std::is_trivially_copyable_v<WorkerFilter>, "may live where a longjmp skips destructors");

// Returns whether a worker with this filter may take jobs of a lane with these parts.
bool lane_matches(const WorkerFilter &filter, std::string_view kind, std::int32_t version,
                  const std::string_view *requires_sorted, int requires_count) noexcept;

// The first part of a lane that a filter does not accept, or Takes if the filter accepts the lane. The parts are
// checked in the order of these values.
enum class Fit { NotKind, NotVersion, NotCapabilities, Takes };
Fit fit_of(const WorkerFilter &filter, std::string_view kind, std::int32_t version,
           const std::string_view *requires_sorted, int requires_count) noexcept;

}  // namespace jobq::core
