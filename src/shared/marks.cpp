// See marks.h. A set-associative table: a lane's place is one of the eight of its bucket; when they are taken, the lane
// that learned something longest ago loses its marks.
#include "pg/pg.h"

#include "settings.h"
#include "shared/marks.h"
#include "shared/memory.h"
#include "shared/slots.h"

#include <algorithm>

namespace jobq {

namespace {

using core::ClaimKey;
using core::EmptyRanges;

constexpr int kBucketSize = 8;
// Publications that a learner is told of one by one; later ones widen the last.
constexpr int kMaxPublished = 4;
// A learner that took longer has ended without a word.
constexpr core::Micros kLongestLearning = core::kSecond;

struct Published {
    ClaimKey first, last;
};

struct Entry {
    Oid database;  // InvalidOid: free
    int64 lane;
    uint64 epoch;
    TimestampTz learned_at;
    uint64 ticket;  // of the read that is under way, 0: none
    TimestampTz ticket_at;
    int published_count;  // since the ticket was given
    Published published[kMaxPublished];
    ClaimKey expected_end;
    EmptyRanges ranges;
};

struct Marks {
    pg_atomic_uint64 next_ticket;  // never repeats, so that a place given to another lane and back is noticed
    int bucket_count;
    Entry entries[FLEXIBLE_ARRAY_MEMBER];
};

Marks *marks = nullptr;

int bucket_count() { return Max(settings.lanes_held / kBucketSize, 1); }

bool useful(uint64 epoch) { return epoch != kNoMarks && marks != nullptr && worker_comes_by(); }

int bucket_of(Oid database, int64 lane) {
    return static_cast<int>((static_cast<uint64>(lane) ^ database * UINT64CONST(0x9e3779b97f4a7c15)) %
                            static_cast<uint64>(marks->bucket_count));
}

Entry *bucket_begin(int bucket) { return &marks->entries[static_cast<size_t>(bucket) * kBucketSize]; }

LWLock *lock_of(int bucket) { return shared_lock(Lock::Marks, bucket % kMarkLocks); }

Entry *find_entry(int bucket, Oid database, int64 lane) {
    Entry *begin = bucket_begin(bucket);
    Entry *end = begin + kBucketSize;
    Entry *found =
        std::find_if(begin, end, [&](const Entry &entry) { return entry.database == database && entry.lane == lane; });
    return found == end ? nullptr : found;
}

// A place for the lane: the one it has, whose marks are of another epoch, or one of its own.
Entry *make_entry(int bucket, Oid database, int64 lane, uint64 epoch) {
    Entry *begin = bucket_begin(bucket);
    Entry *oldest = std::min_element(begin, begin + kBucketSize, [](const Entry &a, const Entry &b) {
        const bool free_a = a.database == InvalidOid;
        const bool free_b = b.database == InvalidOid;
        return free_a != free_b ? free_a : a.learned_at < b.learned_at;
    });
    Entry *place = find_entry(bucket, database, lane);
    if (place == nullptr) place = oldest;
    *place = {};
    place->database = database;
    place->lane = lane;
    place->epoch = epoch;
    place->expected_end = core::kLastKey;
    return place;
}

// Calls body(entry) under the lock of the lane's bucket, or body(nullptr) when nothing is known of it.
template <typename Body>
auto with_entry(int64 lane, LWLockMode mode, Body body) {
    const int bucket = bucket_of(MyDatabaseId, lane);
    LWLockAcquire(lock_of(bucket), mode);
    const auto result = body(find_entry(bucket, MyDatabaseId, lane), bucket);
    LWLockRelease(lock_of(bucket));
    return result;
}

bool is_of(const Entry *entry, uint64 epoch) { return entry != nullptr && entry->epoch == epoch; }

bool touches(const EmptyRanges &ranges, const ClaimKey &first, const ClaimKey &last) {
    for (int i = 0; i < ranges.count; i++)
        if (ranges.items[i].keys.from <= last && first < ranges.items[i].keys.to) return true;
    return false;
}

void tell_learner(Entry *entry, const ClaimKey &first, const ClaimKey &last) {
    if (entry->ticket == 0) return;
    if (entry->published_count < kMaxPublished) {
        entry->published[entry->published_count++] = {first, last};
        return;
    }
    Published &widened = entry->published[kMaxPublished - 1];
    if (first < widened.first) widened.first = first;
    if (widened.last < last) widened.last = last;
}

}  // namespace

EmptyRanges read_marks(uint64 epoch, int64 lane) {
    if (!useful(epoch)) return {};
    return with_entry(lane, LW_SHARED,
                      [epoch](const Entry *entry, int) { return is_of(entry, epoch) ? entry->ranges : EmptyRanges{}; });
}

ClaimKey first_possible_key(uint64 epoch, int64 lane) {
    if (!useful(epoch)) return core::kFirstKey;
    return with_entry(lane, LW_SHARED, [epoch](const Entry *entry, int) {
        return is_of(entry, epoch) ? core::skip_empty(entry->ranges, core::kFirstKey) : core::kFirstKey;
    });
}

ClaimKey expected_end(int64 lane) {
    if (marks == nullptr) return core::kLastKey;
    return with_entry(lane, LW_SHARED,
                      [](const Entry *entry, int) { return entry == nullptr ? core::kLastKey : entry->expected_end; });
}

void expect_end(int64 lane, const ClaimKey &key) {
    if (marks == nullptr) return;
    with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, int) {
        if (entry != nullptr) entry->expected_end = key;
        return true;
    });
}

uint64 begin_learning(uint64 epoch, int64 lane, core::Micros pause) {
    if (!useful(epoch)) return 0;
    const TimestampTz now = GetCurrentTimestamp();
    return with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, int bucket) -> uint64 {
        if (!is_of(entry, epoch)) entry = make_entry(bucket, MyDatabaseId, lane, epoch);
        const core::Micros age = now - entry->ticket_at;
        if (age >= 0 && age < (entry->ticket != 0 ? kLongestLearning : pause)) return 0;
        entry->ticket = pg_atomic_add_fetch_u64(&marks->next_ticket, 1);
        entry->ticket_at = entry->learned_at = now;
        entry->published_count = 0;
        return entry->ticket;
    });
}

void finish_learning(int64 lane, uint64 ticket, const EmptyRanges &found) {
    if (ticket == 0) return;
    with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, int) {
        if (entry == nullptr || entry->ticket != ticket) return false;
        entry->ticket = 0;
        EmptyRanges known = found;
        for (int i = 0; i < entry->published_count; i++)
            core::forget_empty(&known, entry->published[i].first, entry->published[i].last);
        for (int i = 0; i < known.count; i++)
            core::learn_empty(&entry->ranges, known.items[i].keys, known.items[i].passed);
        return true;
    });
}

bool is_being_learned(int64 lane) {
    if (marks == nullptr) return false;
    const TimestampTz now = GetCurrentTimestamp();
    return with_entry(lane, LW_SHARED, [now](const Entry *entry, int) {
        return entry != nullptr && entry->ticket != 0 && now - entry->ticket_at < kLongestLearning;
    });
}

void publish_keys(int64 lane, const ClaimKey &first, const ClaimKey &last) {
    if (marks == nullptr) return;
    const bool nothing_to_do = with_entry(lane, LW_SHARED, [&](const Entry *entry, int) {
        return entry == nullptr || (entry->ticket == 0 && !touches(entry->ranges, first, last));
    });
    if (nothing_to_do) return;
    with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, int) {
        if (entry == nullptr) return false;
        tell_learner(entry, first, last);
        core::forget_empty(&entry->ranges, first, last);
        return true;
    });
}

void forget_marks() {
    if (marks == nullptr) return;
    for (int bucket = 0; bucket < marks->bucket_count; bucket++) {
        LWLockAcquire(lock_of(bucket), LW_EXCLUSIVE);
        for (int i = 0; i < kBucketSize; i++) {
            Entry &entry = bucket_begin(bucket)[i];
            if (entry.database == MyDatabaseId) entry = {};
        }
        LWLockRelease(lock_of(bucket));
    }
}

int held_lanes(uint64 epoch, HeldLane *held, int room) {
    int count = 0;
    if (epoch == kNoMarks || marks == nullptr) return 0;
    for (int bucket = 0; bucket < marks->bucket_count; bucket++) {
        LWLockAcquire(lock_of(bucket), LW_SHARED);
        for (int i = 0; i < kBucketSize && count < room; i++) {
            const Entry &entry = bucket_begin(bucket)[i];
            if (entry.database != MyDatabaseId || entry.epoch != epoch) continue;
            held[count++] = {entry.lane, core::skip_empty(entry.ranges, core::kFirstKey), entry.ranges.count,
                             entry.learned_at};
        }
        LWLockRelease(lock_of(bucket));
    }
    return count;
}

int lanes_held() { return marks == nullptr ? 0 : marks->bucket_count * kBucketSize; }

RepairPlace take_repair_place() {
    Slot *slot = known_session_slot();
    if (slot == nullptr) return kRepairBegins;
    LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
    const RepairPlace place = slot->repaired_to;
    slot->repaired_to = kRepairBegins;
    LWLockRelease(slots_lock());
    return place;
}

void leave_repair_place(const RepairPlace &place) {
    Slot *slot = known_session_slot();
    if (slot == nullptr) return;
    LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
    slot->repaired_to = place;
    LWLockRelease(slots_lock());
}

Size marks_size() { return offsetof(Marks, entries) + sizeof(Entry) * kBucketSize * bucket_count(); }

void make_marks(void *memory, bool fresh) {
    marks = static_cast<Marks *>(memory);
    if (!fresh) return;
    memset(memory, 0, marks_size());
    pg_atomic_init_u64(&marks->next_ticket, 0);
    marks->bucket_count = bucket_count();
}

}  // namespace jobq
