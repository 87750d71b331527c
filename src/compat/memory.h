// Helpers that allocate memory in memory contexts.
#pragma once

#include "compat/pg.h"

#include <algorithm>
#include <string_view>

namespace jobq {

// Returns memory for `count` items, or for one item if `count` is 0, in the current memory context. The size can exceed
// the limit of palloc().
template <typename Item>
Item *allocate_array(uint64 count) {
    return static_cast<Item *>(palloc_extended(sizeof(Item) * Max(count, 1), MCXT_ALLOC_HUGE));
}

// An array that grows. Its memory belongs to the memory context that is current when the first item is added. The
// struct must be all zero at first.
template <typename Item>
struct Notes {
    Item *items;
    int count, room;

    void add(const Item &item) {
        if (count == room) {
            const int more = Max(room * 2, 16);
            const Size size = sizeof(Item) * more;
            items = static_cast<Item *>(items == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, size)
                                                         : repalloc_huge(items, size));
            room = more;  // after the allocation, because an error must not leave a static array with a wrong `room`
        }
        items[count++] = item;
    }
};

// Creates a hash table in the memory context. The key of an entry is its first `key` bytes, and keys are compared as
// bytes. The hash table is freed together with the context.
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
