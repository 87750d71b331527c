// See throttled_ranges.h.
#include "compat/pg.h"

#include "compat/queue_name.h"
#include "core/ablation.h"
#include "core/limit.h"
#include "limits/throttled_ranges.h"
#include "shmem/memory.h"

#include <algorithm>

extern "C" {
#include "port/atomics.h"
}

namespace jobq {

namespace {

constexpr int kLanes = 64;
constexpr int kKeys = 32;
// Maximum number of freed slots that are recorded for a key. This number is higher than the number of slots that claims
// take before the ranges are read again.
constexpr int kMostSlots = 1000000;
// How long the ranges of a lane are valid. They must expire because a slot can become free without notification.
constexpr core::Micros kBelieved = 10 * core::kSecond;

struct Key {
    TimestampTz when;
    int slots;  // number of jobs that can run; kByRate if the limit of the key has a rate
    int length;
    char name[core::kMaxConcurrencyKeyBytes];
};

struct Lane {
    Oid database;  // InvalidOid if the entry is free
    uint64 queue;  // hash of the queue's name
    int64 lane;
    TimestampTz since;
    bool too_many;
    int count;
    Key keys[kKeys];
};

struct Throttled {
    pg_atomic_uint32 lane_count;
    Lane lanes[kLanes];
};

Throttled *throttled = nullptr;

LWLock *lock() { return shared_lock(Part::ThrottledRanges); }

Lane *find_lane(int64 lane) {
    for (Lane &entry : throttled->lanes)
        if (entry.lane == lane && entry.database == MyDatabaseId) return &entry;
    return nullptr;
}

// Returns whether the ranges of the lane have expired. A time in the future also counts as expired, because it means
// that the clock was set back.
bool is_out_of_date(const Lane &lane, TimestampTz now) { return now < lane.since || now - lane.since > kBelieved; }

void add_key(Lane *lane, std::string_view name, TimestampTz when, int slots) {
    for (Key *key = lane->keys; key < lane->keys + lane->count; key++) {
        if (std::string_view(key->name, static_cast<size_t>(key->length)) != name) continue;
        key->when = Min(key->when, when);
        key->slots = Min(key->slots + slots, kMostSlots);
        return;
    }
    if (lane->count == kKeys || name.size() > core::kMaxConcurrencyKeyBytes) {
        lane->too_many = true;
        return;
    }
    Key *key = &lane->keys[lane->count++];
    key->when = when;
    key->slots = slots;
    key->length = static_cast<int>(name.size());
    memcpy(key->name, name.data(), name.size());
}

}  // namespace

bool anything_throttled() { return throttled != nullptr && pg_atomic_read_u32(&throttled->lane_count) > 0; }

bool keep_keys_for(std::string_view queue, int64 lane) {
    if (!core::built_with(core::Mechanism::ThrottledRanges) || throttled == nullptr) return false;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    const TimestampTz now = GetCurrentTimestamp();
    Lane *entry = find_lane(lane);
    if (entry == nullptr) {
        for (Lane &other : throttled->lanes)
            if (entry == nullptr && (other.database == InvalidOid || is_out_of_date(other, now))) entry = &other;
        if (entry != nullptr) {
            if (entry->database == InvalidOid) pg_atomic_fetch_add_u32(&throttled->lane_count, 1);
            *entry = {};
            entry->database = MyDatabaseId;
            entry->queue = digest_of_queue(queue);
            entry->lane = lane;
            // Makes the next claim forget the ranges of the lane, because some of them might have been stored while the
            // lane had an earlier entry.
            entry->since = now;
            entry->too_many = true;
        }
    }
    if (entry == nullptr) note_evictions(Part::ThrottledRanges);
    const bool kept = entry != nullptr && !entry->too_many;
    LWLockRelease(lock());
    return kept;
}

bool unthrottle_key(std::string_view queue, std::string_view key, TimestampTz when, int slots) {
    if (!anything_throttled()) return false;
    bool any = false;
    const uint64 digest = digest_of_queue(queue);
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    for (Lane &lane : throttled->lanes) {
        if (lane.database != MyDatabaseId || lane.queue != digest) continue;
        add_key(&lane, key, when, slots);
        any = true;
    }
    LWLockRelease(lock());
    return any;
}

int next_unthrottled_key(int64 lane, TimestampTz now, char *key, int *slots, bool *all) {
    *all = false;
    if (!anything_throttled()) return kNothingKept;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    Lane *entry = find_lane(lane);
    int length = entry == nullptr ? kNothingKept : 0;
    if (entry != nullptr && (entry->too_many || is_out_of_date(*entry, now))) {
        *all = true;
        entry->too_many = false;
        entry->since = now;
        entry->count = 0;
    }
    for (int i = 0; entry != nullptr && i < entry->count && length == 0; i++) {
        Key *found = &entry->keys[i];
        if (found->when > now) continue;
        length = found->length;
        memcpy(key, found->name, static_cast<size_t>(length));
        *slots = Max(found->slots, 1);
        *found = entry->keys[--entry->count];
    }
    LWLockRelease(lock());
    return length;
}

TimestampTz next_unthrottling(int64 lane) {
    TimestampTz next = DT_NOEND;
    if (!anything_throttled()) return next;
    LWLockAcquire(lock(), LW_SHARED);
    const Lane *entry = find_lane(lane);
    for (int i = 0; entry != nullptr && i < entry->count; i++) next = Min(next, entry->keys[i].when);
    LWLockRelease(lock());
    return next;
}

SharedUsage throttled_ranges_usage() {
    return {pg_atomic_read_u32(&throttled->lane_count), kLanes, evictions(Part::ThrottledRanges)};
}

Size throttled_ranges_size() { return sizeof(Throttled); }

void make_throttled_ranges(void *memory, bool fresh) {
    throttled = static_cast<Throttled *>(memory);
    if (!fresh) return;
    pg_atomic_init_u32(&throttled->lane_count, 0);
}

}  // namespace jobq
