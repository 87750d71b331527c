// Decides which sleeping workers a commit wakes. A digest is a description of the jobs that a sleeping worker accepts.
// It has a fixed size and is kept in shared memory. The committing session compares the digest with the traits of the
// lanes of its new jobs, so that no session needs to know all lanes.
#pragma once

#include "core/lane.h"

namespace jobq::core {

constexpr int kDigestKinds = 32;
constexpr int kDigestVersions = 16;
constexpr int kDigestCapabilities = 32;
constexpr int kTraitRequirements = 16;
constexpr int kTooMany = -2;
constexpr int kAny = -1;

// Whether a sleeping worker accepts a job. Yes: the worker accepts the job. A commit wakes only as many of these
// workers as it has jobs. Maybe: the worker must be woken to check whether it accepts the job, and does not count as
// one of the workers that accept the job.
enum class Wants { No, Maybe, Yes };

// All parts of a lane except its queue. Hashes replace the names, because a hash collision only wakes a worker
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
// Returns a hash of the digest. Filters whose digests have the same hash are treated as if they selected the same
// lanes.
std::uint64_t hash_of_digest(const FilterDigest &digest) noexcept;

// Returns whether a worker with this digest accepts jobs of the lane.
Wants wants_lane(const FilterDigest &digest, const LaneTraits &traits) noexcept;
// Returns whether wants_lane() can return Maybe for this digest and lane. For an empty digest, the result depends only
// on the lane.
bool may_be_unsure(const FilterDigest &digest, const LaneTraits &traits) noexcept;

}  // namespace jobq::core
