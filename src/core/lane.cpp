// See lane.h.
#include "core/lane.h"

#include "core/keyed_hash.h"

#include <algorithm>

namespace jobq::core {

namespace {

template <typename Item>
bool contains(const Item *items, int count, const Item &wanted) {
    return std::find(items, items + count, wanted) != items + count;
}

}  // namespace

std::int64_t lane_hash(const HashKey &secret, std::string_view queue, std::string_view kind, std::int32_t version,
                       const std::string_view *requires_sorted, int requires_count,
                       const std::string_view *limits_sorted, int limits_count) noexcept {
    const int parts = std::max(requires_count, 0);
    KeyedHash hash(secret, Numbered::Lane);
    hash.add_part(queue);
    hash.add_part(kind);
    hash.add_number(static_cast<std::uint32_t>(version), 4);
    hash.add_number(static_cast<std::uint32_t>(parts), 4);
    for (int i = 0; i < parts; i++) hash.add_part(requires_sorted[i]);
    // Adds nothing if there are no limits, so that most lanes have the same number with and without this part.
    if (limits_count > 0) hash.add_number(static_cast<std::uint32_t>(limits_count), 4);
    for (int i = 0; i < limits_count; i++) hash.add_part(limits_sorted[i]);
    return hash.value();
}

int canonical_set(std::string_view *items, int count) noexcept {
    if (items == nullptr || count <= 0) return 0;
    // string_view compares bytes as unsigned numbers, independently of the locale and of the signedness of char.
    std::sort(items, items + count);
    return static_cast<int>(std::unique(items, items + count) - items);
}

Fit fit_of(const WorkerFilter &filter, std::string_view kind, std::int32_t version,
           const std::string_view *requires_sorted, int requires_count) noexcept {
    if (filter.kinds != nullptr && !contains(filter.kinds, std::max(filter.kind_count, 0), kind)) return Fit::NotKind;
    if (filter.versions != nullptr && !contains(filter.versions, std::max(filter.version_count, 0), version))
        return Fit::NotVersion;
    if (requires_sorted == nullptr || requires_count <= 0) return Fit::Takes;
    if (filter.capabilities == nullptr || filter.capability_count <= 0) return Fit::NotCapabilities;
    return std::includes(filter.capabilities, filter.capabilities + filter.capability_count, requires_sorted,
                         requires_sorted + requires_count)
               ? Fit::Takes
               : Fit::NotCapabilities;
}

bool lane_matches(const WorkerFilter &filter, std::string_view kind, std::int32_t version,
                  const std::string_view *requires_sorted, int requires_count) noexcept {
    return fit_of(filter, kind, version, requires_sorted, requires_count) == Fit::Takes;
}

}  // namespace jobq::core
