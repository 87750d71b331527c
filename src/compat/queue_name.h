// A queue's name where its place has a fixed size: in shared memory, in what a transaction notes, as a key of a hash
// table. Zero padded, so that names can be compared and copied as bytes.
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

// False when the name is too long, and has been cut: such names come in with triggers disabled only.
inline bool copy_queue(char *to, std::string_view queue) {
    const size_t size = Min(queue.size(), sizeof(QueueName) - 1);
    memcpy(to, queue.data(), size);
    memset(to + size, 0, sizeof(QueueName) - size);
    return size == queue.size();
}

inline bool same_queue(const char *a, const char *b) { return memcmp(a, b, sizeof(QueueName)) == 0; }

inline std::string_view queue_view(const char *name) { return {name, strnlen(name, sizeof(QueueName))}; }

// Where to look for a queue.
inline uint32 hash_of_queue(const char *name) {
    return hash_bytes(reinterpret_cast<const unsigned char *>(name), static_cast<int>(queue_view(name).size()));
}

// A hash that stands for a queue of this session's database.
inline uint64 digest_of_queue(std::string_view queue) {
    return hash_bytes_extended(reinterpret_cast<const unsigned char *>(queue.data()), static_cast<int>(queue.size()),
                               MyDatabaseId);
}

}  // namespace jobq
