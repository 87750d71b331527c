// The name of a queue in a field of fixed size, for shared memory, the transaction log, and the keys of hash tables.
// The name is padded with zeros so that names can be compared and copied as bytes.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

extern "C" {
#include "common/hashfn.h"
}

#include <string_view>

namespace jobq {

using QueueName = char[NAMEDATALEN];
static_assert(sizeof(QueueName) > core::kMaxQueueBytes);

// Copies the name. Returns false if the name was too long and has been truncated. Only rows that were inserted with
// triggers disabled can contain such a name.
inline bool copy_queue(char *to, std::string_view queue) {
    const size_t size = Min(queue.size(), sizeof(QueueName) - 1);
    memcpy(to, queue.data(), size);
    memset(to + size, 0, sizeof(QueueName) - size);
    return size == queue.size();
}

inline bool same_queue(const char *a, const char *b) { return memcmp(a, b, sizeof(QueueName)) == 0; }

inline bool same_queue(const char *name, std::string_view queue) {
    return queue.size() < sizeof(QueueName) && memcmp(name, queue.data(), queue.size()) == 0 &&
           name[queue.size()] == '\0';
}

inline std::string_view queue_view(const char *name) { return {name, strnlen(name, sizeof(QueueName))}; }

// Returns the hash of a queue name for hash tables in memory.
inline uint32 hash_of_queue(const char *name) {
    return hash_bytes(reinterpret_cast<const unsigned char *>(name), static_cast<int>(queue_view(name).size()));
}

// Returns a hash that identifies a queue in this session's database.
inline uint64 digest_of_queue(std::string_view queue) {
    return hash_bytes_extended(reinterpret_cast<const unsigned char *>(queue.data()), static_cast<int>(queue.size()),
                               MyDatabaseId);
}

}  // namespace jobq
