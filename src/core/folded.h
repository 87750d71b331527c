// A hash table with a fixed number of entries that also keeps the order in which the entries were added. The
// transaction log (log/logged.h) uses such tables to fold repeated changes to the same object into one entry. A table
// is in static memory and allocates nothing. A table that is all zero is empty.
#pragma once

#include <cstdint>
#include <type_traits>

namespace jobq::core {

template <typename Item, int Room, int Buckets>
struct Folded {
    static_assert(std::is_trivially_copyable_v<Item> && Room <= INT16_MAX, "their indexes are stored in two bytes");

    int count;
    std::int16_t heads[Buckets];  // index + 1 of the newest entry of each bucket; 0: none
    struct {
        std::int16_t older, bucket;
    } links[Room];
    Item items[Room];

    // Returns the newest entry with this hash for which is(entry) returns true, or nullptr if there is none.
    template <typename Is>
    const Item *find(std::uint64_t hash, Is is) const noexcept {
        for (int i = heads[hash % Buckets]; i != 0; i = links[i - 1].older)
            if (is(items[i - 1])) return &items[i - 1];
        return nullptr;
    }
    template <typename Is>
    Item *find(std::uint64_t hash, Is is) noexcept {
        return const_cast<Item *>(static_cast<const Folded *>(this)->find(hash, is));
    }

    // Adds an entry and returns it. Returns nullptr if there is no room.
    Item *add(std::uint64_t hash, const Item &item) noexcept {
        if (count == Room) return nullptr;
        const auto bucket = static_cast<std::int16_t>(hash % Buckets);
        links[count] = {heads[bucket], bucket};
        items[count] = item;
        heads[bucket] = static_cast<std::int16_t>(count + 1);
        return &items[count++];
    }

    // Removes the entry that was added last. The removed entry can still be read until the next call to add().
    void pop() noexcept {
        count--;
        heads[links[count].bucket] = links[count].older;
    }

    void clear() noexcept {
        while (count > 0) pop();
    }

    const Item *begin() const noexcept { return items; }
    const Item *end() const noexcept { return items + count; }
    Item *begin() noexcept { return items; }
    Item *end() noexcept { return items + count; }
};

}  // namespace jobq::core
