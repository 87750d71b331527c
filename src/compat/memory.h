// Memory of the server's contexts. Who may call it: everybody above the core.
#pragma once

#include "compat/pg.h"

#include <algorithm>
#include <string_view>

namespace jobq {

// Room for so many items, for one at least, in the current context: batches may be larger than palloc allows.
template <typename Item>
Item *room_for(uint64 count) {
    return static_cast<Item *>(palloc_extended(sizeof(Item) * Max(count, 1), MCXT_ALLOC_HUGE));
}

// An array that grows, in the memory context that is current when its first item comes. Zeroed at first.
template <typename Item>
struct Notes {
    Item *items;
    int count, room;

    void add(const Item &item) {
        if (count == room) {
            room = Max(room * 2, 16);
            const Size size = sizeof(Item) * room;
            items = static_cast<Item *>(items == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, size)
                                                         : repalloc_huge(items, size));
        }
        items[count++] = item;
    }
};

// A hash table whose keys, the first `key` bytes of an entry, are compared as bytes; it goes with the context.
inline HTAB *make_hash_table(const char *name, Size key, Size entry, MemoryContext context) {
    constexpr long kExpected = 32;
    HASHCTL control = {};
    control.keysize = key;
    control.entrysize = entry;
    control.hcxt = context;
    return hash_create(name, kExpected, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

// A copy that lives as long as the context.
inline std::string_view keep(MemoryContext context, std::string_view value) {
    auto *copy = static_cast<char *>(MemoryContextAlloc(context, Max(value.size(), 1)));
    std::copy(value.begin(), value.end(), copy);
    return {copy, value.size()};
}

}  // namespace jobq
