// Helpers for memory contexts. Everything above the core may use them.
#pragma once

#include "compat/pg.h"

#include <algorithm>
#include <string_view>

namespace jobq {

// Returns memory for this many items, at least one, in the current context. Works for batches that are too large for
// palloc.
template <typename Item>
Item *allocate_array(uint64 count) {
    return static_cast<Item *>(palloc_extended(sizeof(Item) * Max(count, 1), MCXT_ALLOC_HUGE));
}

// A growing array in the memory context that is current when the first item is added. Must be zeroed first.
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

// Creates a hash table whose keys, the first `key` bytes of an entry, are compared as bytes. It is freed with the
// context.
inline HTAB *make_hash_table(const char *name, Size key, Size entry, MemoryContext context) {
    constexpr long kExpected = 32;
    HASHCTL control = {};
    control.keysize = key;
    control.entrysize = entry;
    control.hcxt = context;
    return hash_create(name, kExpected, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

// Returns a copy of `value` that is allocated in the context.
inline std::string_view keep(MemoryContext context, std::string_view value) {
    auto *copy = static_cast<char *>(MemoryContextAlloc(context, Max(value.size(), 1)));
    std::copy(value.begin(), value.end(), copy);
    return {copy, value.size()};
}

}  // namespace jobq
