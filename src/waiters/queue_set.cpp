// See queue_set.h.
#include "compat/pg.h"

#include "core/stable_hash.h"
#include "waiters/queue_set.h"
#include "waiters/waiter.h"

extern "C" {
#include "common/hashfn.h"
}

namespace jobq {

namespace {

uint64 digest_of_bytes(std::string_view bytes, uint64 seed) {
    return hash_bytes_extended(reinterpret_cast<const unsigned char *>(bytes.data()), static_cast<int>(bytes.size()),
                               seed);
}

uint64 digest_of_name(std::string_view name) { return digest_of_bytes(name, waiters->seed ^ MyDatabaseId); }

// Adds the digests of the names until the list is full.
void add_names(QueueSet *set, const std::string_view *names, int count) {
    for (int i = 0; i < count; i++) {
        if (set->count == kListedQueues) {
            set->incomplete = true;
            return;
        }
        const uint64 digest = digest_of_name(names[i]);
        uint64 *end = set->digests + set->count;
        if (std::find(set->digests, end, digest) != end) continue;
        *end = digest;
        set->count++;
    }
}

void add_patterns(QueueSet *set, const WaitedQueues &queues) {
    for (int i = 0; i < queues.pattern_count; i++) {
        const std::string_view pattern = queues.patterns[i];
        const int bytes = static_cast<int>(pattern.size());
        if (set->pattern_bytes + 1 + bytes > kPatternRoom) {
            set->patterns_incomplete = true;
            return;
        }
        char *at = set->patterns + set->pattern_bytes;
        *at = static_cast<char>(queues.pattern_excludes[i] ? bytes | kExcludes : bytes);
        memcpy(at + 1, pattern.data(), pattern.size());
        set->pattern_bytes += 1 + bytes;
    }
}

// Returns whether the first pattern that matches the name selects the queue.
bool patterns_select(const QueueSet &set, std::string_view name) {
    for (const char *at = set.patterns; at < set.patterns + set.pattern_bytes;) {
        const auto length = static_cast<unsigned char>(*at);
        const int bytes = length & ~kExcludes;
        if (core::matches_pattern({at + 1, static_cast<size_t>(bytes)}, name, pg_mblen))
            return (length & kExcludes) == 0;
        at += 1 + bytes;
    }
    return false;
}

}  // namespace

QueueKey key_of_queue(std::string_view name) { return {digest_of_name(name), name}; }

void fill_set(QueueSet *set, const WaitedQueues &queues) {
    set->count = set->pattern_bytes = 0;
    set->incomplete = set->patterns_incomplete = false;
    set->excluded = {};
    set->several = queues.waits_for_several();
    // A session without patterns waits only for the queues that it names.
    const int excluded = queues.pattern_count > 0 ? queues.excluded_count : 0;
    add_names(set, queues.excluded, excluded);
    add_names(set, queues.names, queues.named);
    // If there are too many queues that match the patterns, the patterns recognize the queues that are not listed.
    const bool incomplete = set->incomplete;
    add_names(set, queues.names + queues.named, queues.count - queues.named);
    set->incomplete = incomplete;
    add_patterns(set, queues);
    std::sort(set->digests, set->digests + set->count);
    for (int i = 0; i < excluded; i++) {
        const int place = place_in(*set, queues.excluded[i]);
        if (place >= 0) set->excluded.add(place);
    }
}

int place_in(const uint64 *digests, int count, uint64 digest) {
    const uint64 *found = std::lower_bound(digests, digests + count, digest);
    return found != digests + count && *found == digest ? static_cast<int>(found - digests) : -1;
}

int place_in(const QueueSet &set, std::string_view queue) {
    return place_in(set.digests, set.count, digest_of_name(queue));
}

core::Wants includes(const QueueSet &set, const QueueKey &queue, int *place) {
    *place = place_in(set.digests, set.count, queue.digest);
    if (*place >= 0) return set.excluded.has(*place) ? core::Wants::No : core::Wants::Yes;
    if (set.incomplete || set.patterns_incomplete) return core::Wants::Maybe;
    if (set.pattern_bytes == 0) return core::Wants::No;
    return queue.name.empty() || patterns_select(set, queue.name) ? core::Wants::Maybe : core::Wants::No;
}

uint64 hash_of_wait(const WaitedQueues &queues) {
    // Does not include the queues that match the patterns now, because two sessions can find a new queue at different
    // times.
    uint64 hash = waiters->seed ^ (queues.waits_for_several() ? queues.user : 0);
    const auto add_all = [&hash](const std::string_view *names, int count) {
        hash = (hash ^ static_cast<uint64>(count)) + 1;
        for (int i = 0; i < count; i++) hash = digest_of_bytes(names[i], hash);
    };
    add_all(queues.names, queues.named);
    add_all(queues.excluded, queues.excluded_count);
    add_all(queues.patterns, queues.pattern_count);
    for (int i = 0; i < queues.pattern_count; i++) hash = core::mix64(hash) + (queues.pattern_excludes[i] ? 1 : 0);
    return hash;
}

}  // namespace jobq
