// See wake.h.
#include "core/wake.h"

#include "core/stable_hash.h"

#include <algorithm>

namespace jobq::core {

namespace {

std::uint64_t name_hash(std::string_view name) { return static_cast<std::uint64_t>(stable_hash(name)); }

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

FilterDigest digest_of(const WorkerFilter &filter) noexcept {
    FilterDigest digest = {};
    digest.kind_count = kAny;
    if (filter.kinds != nullptr) {
        digest.kind_count = filter.kind_count > kDigestKinds ? kTooMany : std::max(filter.kind_count, 0);
        for (int i = 0; i < digest.kind_count; i++) digest.kinds[i] = name_hash(filter.kinds[i]);
    }
    digest.version_count = kAny;
    if (filter.versions != nullptr) {
        digest.version_count = filter.version_count > kDigestVersions ? kTooMany : std::max(filter.version_count, 0);
        for (int i = 0; i < digest.version_count; i++) digest.versions[i] = filter.versions[i];
    }
    if (filter.capabilities != nullptr) {
        digest.capability_count =
            filter.capability_count > kDigestCapabilities ? kTooMany : std::max(filter.capability_count, 0);
        for (int i = 0; i < digest.capability_count; i++) digest.capabilities[i] = name_hash(filter.capabilities[i]);
    }
    return digest;
}

std::uint64_t hash_of_digest(const FilterDigest &digest) noexcept {
    std::uint64_t hash = 0;
    const auto add = [&hash](std::uint64_t number) { hash = mix64(hash + number) + 1; };
    const auto add_all = [&add](const auto *items, int count) {
        add(static_cast<std::uint64_t>(count));
        std::for_each(items, items + std::max(count, 0), [&add](auto item) { add(static_cast<std::uint64_t>(item)); });
    };
    add_all(digest.kinds, digest.kind_count);
    add_all(digest.versions, digest.version_count);
    add_all(digest.capabilities, digest.capability_count);
    return hash;
}

Wants wants_lane(const FilterDigest &digest, const LaneTraits &traits) noexcept {
    Wants wants = Wants::Yes;
    if (digest.kind_count == kTooMany)
        wants = Wants::Maybe;
    else if (digest.kind_count != kAny && !contains(digest.kinds, digest.kind_count, traits.kind))
        return Wants::No;
    if (digest.version_count == kTooMany)
        wants = Wants::Maybe;
    else if (digest.version_count != kAny && !contains(digest.versions, digest.version_count, traits.version))
        return Wants::No;
    if (traits.required_count == 0) return wants;
    if (digest.capability_count == 0) return Wants::No;
    if (traits.required_count == kTooMany || digest.capability_count == kTooMany) return Wants::Maybe;
    for (int i = 0; i < traits.required_count; i++)
        if (!contains(digest.capabilities, digest.capability_count, traits.required[i])) return Wants::No;
    return wants;
}

bool may_be_unsure(const FilterDigest &digest, const LaneTraits &traits) noexcept {
    return digest.kind_count == kTooMany || digest.version_count == kTooMany || digest.capability_count == kTooMany ||
           traits.required_count == kTooMany;
}

}  // namespace jobq::core
