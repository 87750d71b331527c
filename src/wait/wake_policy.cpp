// Whom a commit wakes: see wake.h.
#include "wait/wake_policy.h"

#include <algorithm>

namespace jobq::core {

namespace {

std::uint64_t name_hash(std::string_view name) {
    return static_cast<std::uint64_t>(lane_hash(name, std::string_view(), 0, nullptr, 0));
}

template <typename Item>
bool contains(const Item *items, int count, Item wanted) {
    return std::find(items, items + count, wanted) != items + count;
}

}  // namespace

LaneTraits lane_traits(std::string_view kind, std::int32_t version, const std::string_view *required,
                       int required_count) noexcept {
    LaneTraits traits = {};
    traits.kind = name_hash(kind);
    traits.version = version;
    traits.required_count = required_count > kTraitRequirements ? kTooMany : std::max(required_count, 0);
    for (int i = 0; i < traits.required_count; i++) traits.required[i] = name_hash(required[i]);
    return traits;
}

Wish make_wish(const WorkerFilter &filter) noexcept {
    Wish wish = {};
    wish.kind_count = kAny;
    if (filter.kinds != nullptr) {
        wish.kind_count = filter.kind_count > kWishKinds ? kTooMany : std::max(filter.kind_count, 0);
        for (int i = 0; i < wish.kind_count; i++) wish.kinds[i] = name_hash(filter.kinds[i]);
    }
    wish.version_count = kAny;
    if (filter.versions != nullptr) {
        wish.version_count = filter.version_count > kWishVersions ? kTooMany : std::max(filter.version_count, 0);
        for (int i = 0; i < wish.version_count; i++) wish.versions[i] = filter.versions[i];
    }
    if (filter.capabilities != nullptr) {
        wish.capability_count =
            filter.capability_count > kWishCapabilities ? kTooMany : std::max(filter.capability_count, 0);
        for (int i = 0; i < wish.capability_count; i++) wish.capabilities[i] = name_hash(filter.capabilities[i]);
    }
    return wish;
}

Wants wants_lane(const Wish &wish, const LaneTraits &traits) noexcept {
    Wants wants = Wants::Yes;
    if (wish.kind_count == kTooMany)
        wants = Wants::Maybe;
    else if (wish.kind_count != kAny && !contains(wish.kinds, wish.kind_count, traits.kind))
        return Wants::No;
    if (wish.version_count == kTooMany)
        wants = Wants::Maybe;
    else if (wish.version_count != kAny && !contains(wish.versions, wish.version_count, traits.version))
        return Wants::No;
    if (traits.required_count == 0) return wants;
    if (wish.capability_count == 0) return Wants::No;
    if (traits.required_count == kTooMany || wish.capability_count == kTooMany) return Wants::Maybe;
    for (int i = 0; i < traits.required_count; i++)
        if (!contains(wish.capabilities, wish.capability_count, traits.required[i])) return Wants::No;
    return wants;
}

bool may_be_unsure(const Wish &wish, const LaneTraits &traits) noexcept {
    return wish.kind_count == kTooMany || wish.version_count == kTooMany || wish.capability_count == kTooMany ||
           traits.required_count == kTooMany;
}

}  // namespace jobq::core
