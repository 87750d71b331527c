// Lanes: the distinct (queue, kind, version, requires). Jobs of one lane may be taken by exactly the same workers.
#pragma once

#include "core/keyed_hash.h"

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace jobq::core {

// Returns the number of a lane, a keyed hash of its parts.
// `requires_sorted` must be sorted bytewise and free of duplicates: a lane is identified by the *set*.
// The bytes hashed, numbers lowest byte first: Numbered::Lane, length (4) and bytes of queue, the same of kind, version
// (4), requires_count (4), then length (4) and bytes of each requirement.
std::int64_t lane_hash(const HashKey &secret, std::string_view queue, std::string_view kind, std::int32_t version,
                       const std::string_view *requires_sorted, int requires_count) noexcept;

// Sorts bytewise and drops duplicates in place; returns the new count.
int canonical_set(std::string_view *items, int count) noexcept;

// What a worker may take. A null pointer means "any" for kinds and versions, "none" for capabilities; an empty list
// that is not null matches nothing.
struct WorkerFilter {
    const std::string_view *kinds;  // null: any
    int kind_count;
    const std::int32_t *versions;  // null: any
    int version_count;
    const std::string_view *capabilities;  // canonical set; may be null when the count is 0
    int capability_count;
};
static_assert(std::is_trivially_copyable_v<WorkerFilter>, "may live where a longjmp skips destructors");

// Whether a worker with this filter may take jobs of a lane with these parts.
bool lane_matches(const WorkerFilter &filter, std::string_view kind, std::int32_t version,
                  const std::string_view *requires_sorted, int requires_count) noexcept;

// How far a worker with this filter is from taking jobs of a lane, in the order in which the parts are asked for.
enum class Fit { NotKind, NotVersion, NotCapabilities, Takes };
Fit fit_of(const WorkerFilter &filter, std::string_view kind, std::int32_t version,
           const std::string_view *requires_sorted, int requires_count) noexcept;

}  // namespace jobq::core
