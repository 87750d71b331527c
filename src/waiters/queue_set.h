// The queues for which a session waits, as the list of waiters stores them in shared memory. Most sessions wait for one
// queue. A session that waits for several queues also has only one entry in the list of waiters. The entry contains the
// queues and the patterns that select queues. Only files in this directory include this file.
//
// A set contains hashes of the names. The hashes are seeded with a secret number, so that a user cannot construct names
// that collide. If two names collide by chance, a session is woken unnecessarily.
#pragma once

#include "compat/pg.h"
#include "core/queue_pattern.h"
#include "core/wake.h"
#include "waiters/waiters.h"

#include <algorithm>

namespace jobq {

// Maximum number of queues that a set lists, so that an entry in shared memory has a fixed size.
constexpr int kListedQueues = 128;
// Number of bytes for the patterns of a set.
constexpr int kPatternRoom = 512;

// Some of the queues that a set lists, by their places in the list.
struct QueueBits {
    static constexpr int kWords = kListedQueues / 64;
    uint64 words[kWords];

    void add(int place) { words[place / 64] |= uint64{1} << (place % 64); }
    void add_all() { std::fill(words, words + kWords, ~uint64{0}); }
    void remove(int place) { words[place / 64] &= ~(uint64{1} << (place % 64)); }
    bool has(int place) const { return (words[place / 64] >> (place % 64) & 1) != 0; }
    bool empty() const {
        return std::all_of(words, words + kWords, [](uint64 word) { return word == 0; });
    }
};

// A queue to look for in a set.
struct QueueKey {
    uint64 digest;
    std::string_view name;  // empty: only the digest is known
};
QueueKey key_of_queue(std::string_view name);

struct QueueSet {
    int count;                 // number of digests
    bool several;              // false: the set is the one queue that is listed
    bool incomplete;           // too many queues to list, so any queue might belong to the set
    bool patterns_incomplete;  // too many patterns to store, so any queue might match one
    int pattern_bytes;         // number of bytes used in `patterns`
    QueueBits excluded;        // listed queues that do not belong to the set, even if a pattern matches their names
    uint64 digests[kListedQueues];  // in ascending order
    char patterns[kPatternRoom];    // the length of each pattern in one byte, followed by the pattern
};
// This bit of the length marks a pattern whose queues do not belong to the set.
constexpr unsigned char kExcludes = 0x80;
static_assert(core::kMaxPatternBytes < kExcludes, "the length of a pattern leaves this bit free");

void fill_set(QueueSet *set, const WaitedQueues &queues);

// These functions return the place of a queue in a list of digests, or -1 if the list does not contain the queue.
int place_in(const uint64 *digests, int count, uint64 digest);
int place_in(const QueueSet &set, std::string_view queue);

// Returns whether the queue belongs to the set. Maybe: the session must check whether it does. Sets *place to the place
// of the queue in the list of the set, or to -1.
core::Wants includes(const QueueSet &set, const QueueKey &queue, int *place);

// Returns a hash of the arguments that select queues. Two sessions with the same hash may take jobs of the same queues.
uint64 hash_of_wait(const WaitedQueues &queues);

}  // namespace jobq
