// A lane is a distinct (queue, kind, version, requires). The same workers may take all jobs of a lane.
#pragma once

#include "core/keyed_hash.h"

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace jobq::core {

// Returns the number of a lane: a keyed hash of its parts. `requires_sorted` must be sorted bytewise and without
// duplicates, because a lane is identified by the set of its requirements. Hashes the following bytes, with the lowest
// byte of each number first: Numbered::Lane; the length (4 bytes) and the bytes of `queue`, then of `kind`; `version`
// (4 bytes); `requires_count` (4 bytes); and the length (4 bytes) and the bytes of each requirement.
std::int64_t lane_hash(const HashKey &secret, std::string_view queue, std::string_view kind, std::int32_t version,
                       const std::string_view *requires_sorted, int requires_count) noexcept;

// Sorts bytewise and removes duplicates in place. Returns the new count.
int canonical_set(std::string_view *items, int count) noexcept;

// What a worker may take. nullptr means "any" for kinds and versions, and "none" for capabilities. An empty list that
// is not nullptr matches nothing.
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

// The first part of a lane that does not match a filter, in the order in which the parts are checked.
enum class Fit { NotKind, NotVersion, NotCapabilities, Takes };
Fit fit_of(const WorkerFilter &filter, std::string_view kind, std::int32_t version,
           const std::string_view *requires_sorted, int requires_count) noexcept;

}  // namespace jobq::core
