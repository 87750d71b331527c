// Whom a commit wakes: what a waiting worker would take, in a form that fits into shared memory, and whether a job of
// some lane is that. A worker is described twice: by the lanes it may take, as far as it knows them, and by a digest of
// its filter, which judges a lane that is newer than its look into the directory.
#pragma once

#include "core/lane.h"

namespace jobq::core {

constexpr int kWishKinds = 32;
constexpr int kWishVersions = 16;
constexpr int kWishCapabilities = 32;
constexpr int kWishLanes = 64;
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

struct Wish {
    std::uint64_t kinds[kWishKinds];
    std::uint64_t capabilities[kWishCapabilities];
    std::int64_t lanes[kWishLanes];
    std::int32_t versions[kWishVersions];
    int kind_count;     // kAny, kTooMany
    int version_count;  // kAny, kTooMany
    int capability_count;
    int lane_count;
    bool many_lanes;  // more than are listed, or some that cannot be judged
};
static_assert(std::is_trivially_copyable_v<LaneTraits> && std::is_trivially_copyable_v<Wish>, "live in shared memory");

LaneTraits lane_traits(std::string_view kind, std::int32_t version, const std::string_view *required,
                       int required_count) noexcept;

// The wish of a worker with this filter that knows no lanes yet.
Wish make_wish(const WorkerFilter &filter) noexcept;

// Adds a lane that the worker may take. Lanes are never taken out: one too many costs a look.
void add_lane(Wish *wish, std::int64_t lane) noexcept;

// Whether the worker may take jobs of a lane of which only the traits are known.
Wants wants_traits(const Wish &wish, const LaneTraits &traits) noexcept;

// A lane is new: from now on the wish includes it, if it is wanted.
void meet_lane(Wish *wish, std::int64_t lane, const LaneTraits &traits) noexcept;

// Whether the worker may take jobs of this lane.
Wants wants_lane(const Wish &wish, std::int64_t lane) noexcept;

}  // namespace jobq::core
