// Decides which sleeping workers a commit wakes. A digest describes in shared memory which jobs a sleeping worker
// accepts, in a fixed size. The committing session compares the digest with the traits of the lanes of its new jobs, so
// that no session needs to know all lanes.
#pragma once

#include "core/lane.h"

namespace jobq::core {

constexpr int kDigestKinds = 32;
constexpr int kDigestVersions = 16;
constexpr int kDigestCapabilities = 32;
constexpr int kTraitRequirements = 16;
constexpr int kTooMany = -2;
constexpr int kAny = -1;

// Yes: the sleeping worker accepts the job; a commit wakes as many of these workers as it has jobs. Maybe: the worker
// must be woken to check for itself, and is not counted as one of these workers.
enum class Wants { No, Maybe, Yes };

// The parts of a lane except its queue, with hashes of the names. A hash collision only causes a worker to wake up
// unnecessarily.
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

FilterDigest digest_of(const WorkerFilter &filter) noexcept;
// Returns a hash of the digest. Filters whose digests have the same hash want the same lanes.
std::uint64_t hash_of_digest(const FilterDigest &digest) noexcept;

// Returns whether the worker may take jobs of the lane.
Wants wants_lane(const FilterDigest &digest, const LaneTraits &traits) noexcept;
// Returns whether wants_lane() can return Maybe for this digest and lane. For an empty digest, the result depends only
// on the lane.
bool may_be_unsure(const FilterDigest &digest, const LaneTraits &traits) noexcept;

}  // namespace jobq::core
