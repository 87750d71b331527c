// Decides which sleepers a commit wakes: what a waiting worker would take, in a form that fits into shared memory, and
// whether a job of a given lane matches. The commit describes the lane, so that no session needs to know all lanes.
#pragma once

#include "core/lane.h"

namespace jobq::core {

constexpr int kDigestKinds = 32;
constexpr int kDigestVersions = 16;
constexpr int kDigestCapabilities = 32;
constexpr int kTraitRequirements = 16;
constexpr int kTooMany = -2;
constexpr int kAny = -1;

// Yes: the sleeper takes the job, so the commit wakes as many of these as it has jobs. Maybe: the sleeper must look for
// itself, and does not count.
enum class Wants { No, Maybe, Yes };

// A lane without its queue; names are stored as hashes. A collision makes a worker look once too often.
struct LaneTraits {
    std::uint64_t kind;
    std::uint64_t required[kTraitRequirements];
    std::int32_t version;
    std::int32_t required_count;  // kTooMany: the requirements do not fit
};

struct FilterDigest {
    std::uint64_t kinds[kDigestKinds];
    std::uint64_t capabilities[kDigestCapabilities];
    std::int32_t versions[kDigestVersions];
    int kind_count;     // or kAny, or kTooMany
    int version_count;  // or kAny, or kTooMany
    int capability_count;
};
static_assert(std::is_trivially_copyable_v<LaneTraits> && std::is_trivially_copyable_v<FilterDigest>,
              "live in shared memory");

LaneTraits lane_traits(std::string_view kind, std::int32_t version, const std::string_view *required,
                       int required_count) noexcept;

// Returns the digest of a filter.
FilterDigest digest_of(const WorkerFilter &filter) noexcept;
// Returns a hash of the digest. Filters whose digests have the same hash want the same lanes.
std::uint64_t hash_of_digest(const FilterDigest &digest) noexcept;

// Returns whether the worker may take jobs of the lane.
Wants wants_lane(const FilterDigest &digest, const LaneTraits &traits) noexcept;
// Returns whether wants_lane() can return Maybe for these two. Returns true for an empty digest only if the lane alone
// makes the answer uncertain.
bool may_be_unsure(const FilterDigest &digest, const LaneTraits &traits) noexcept;

}  // namespace jobq::core
