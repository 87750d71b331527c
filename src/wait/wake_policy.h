// Whom a commit wakes: what a waiting worker would take, in a form that fits into shared memory, and whether a job of
// some lane is that. The commit describes the lane, so that nobody need know all lanes that there are.
#pragma once

#include "lanes/lane_policy.h"

namespace jobq::core {

constexpr int kDigestKinds = 32;
constexpr int kDigestVersions = 16;
constexpr int kDigestCapabilities = 32;
constexpr int kTraitRequirements = 16;
constexpr int kTooMany = -2;
constexpr int kAny = -1;

// Yes counts as one of as many sleepers as there are jobs. Maybe must look for itself, and does not count.
enum class Wants { No, Maybe, Yes };

// A lane without its queue: names as hashes. A collision makes a worker look once too often.
struct LaneTraits {
    std::uint64_t kind;
    std::uint64_t required[kTraitRequirements];
    std::int32_t version;
    std::int32_t required_count;  // kTooMany: cannot be told
};

struct FilterDigest {
    std::uint64_t kinds[kDigestKinds];
    std::uint64_t capabilities[kDigestCapabilities];
    std::int32_t versions[kDigestVersions];
    int kind_count;     // kAny, kTooMany
    int version_count;  // kAny, kTooMany
    int capability_count;
};
static_assert(std::is_trivially_copyable_v<LaneTraits> && std::is_trivially_copyable_v<FilterDigest>,
              "live in shared memory");

LaneTraits lane_traits(std::string_view kind, std::int32_t version, const std::string_view *required,
                       int required_count) noexcept;

// The digest of a filter.
FilterDigest digest_of(const WorkerFilter &filter) noexcept;
// Filters whose digests have the same hash want the same lanes.
std::uint64_t hash_of_digest(const FilterDigest &digest) noexcept;

// Whether the worker may take jobs of the lane.
Wants wants_lane(const FilterDigest &digest, const LaneTraits &traits) noexcept;
// Whether it may have to look for itself; false without a look at its filter: for those who need no Yes any more.
bool may_be_unsure(const FilterDigest &digest, const LaneTraits &traits) noexcept;

}  // namespace jobq::core
