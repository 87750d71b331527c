// See limits.h. A set-associative table: a limit's place is one of the eight of its bucket; when they are taken, the
// limit that was used longest ago is forgotten.
#include "pg/pg.h"

#include "shared/limits.h"
#include "shared/marks.h"
#include "shared/memory.h"
#include "shared/parked.h"
#include "shared/prepared.h"
#include "shared/waiters.h"
#include "shared/wall_clock.h"

#include <algorithm>

extern "C" {
#include "utils/resowner.h"
}

namespace jobq {

namespace {

constexpr int kBucketSize = 8;
constexpr int kBuckets = 1024;
constexpr int kBounds = 32768;
// So long it is believed that a limit is full, or a hundred times as long as it took to find out: for slots that became
// free without a word.
constexpr core::Micros kFullFor = 10 * core::kSecond;
constexpr int kFullForLooks = 100;
// Slots that a transaction takes and gives back. Of more it is only known that there were some.
constexpr int kMaxTold = 4096;

struct Entry {
    Oid database;  // InvalidOid: free
    int64 limit;
    uint64 change;         // another one whenever a slot may have become free
    uint64 unlisted;       // the last change that left out of `free` what it freed
    TimestampTz used_at;   // for who has to go
    bool complete;         // every free number is in `free`, as far as is known
    TimestampTz until;     // so long that is believed
    volatile bool missed;  // somebody has been told that the limit is full
    TimestampTz search_began;
    int32 next;  // where the next search begins
    int free_count;
    int32 free[kFreeNumbers];
    core::Rate rate;  // interval 0: none yet
    core::Bucket bucket;
};

struct Bound {
    Oid database;
    int64 slot;
    int64 bound;
    int64 latest;   // what was written last
    uint64 ticket;  // of who wrote it
};

struct Bucket {
    core::Micros emptied;  // the fullest-at of those that had to go
    Entry entries[kBucketSize];
};

struct Limits {
    pg_atomic_uint64 changes;  // never repeats, so that a place given to another limit and back is noticed
    Bucket buckets[kBuckets];
    Bound bounds[kBounds];
};

Limits *limits = nullptr;

// What this session's transaction has taken, and what it gives back.
struct Told {
    int64 slot;
    int64 seq;
    uint64 ticket;  // to raise the bound, 0: no
    bool freed;
    bool tried;               // given back, and handed out to a claim of this transaction
    char queue[NAMEDATALEN];  // zero padded
    std::string_view key;     // empty: of the whole queue; in TopTransactionContext
};
struct Pending {
    int count, room;
    bool anywhere;
    Told *told;  // in TopTransactionContext
};
Pending pending = {};

uint64 spread(uint64 number) { return number * UINT64CONST(0x9e3779b97f4a7c15); }

int bucket_of(int64 limit) {
    return static_cast<int>((spread((static_cast<uint64>(limit) >> core::kSlotBits) ^ MyDatabaseId) >> 32) % kBuckets);
}

Entry *find_entry(Bucket *bucket, int64 limit) {
    Entry *end = bucket->entries + kBucketSize;
    Entry *found = std::find_if(bucket->entries, end, [&](const Entry &entry) {
        return entry.database == MyDatabaseId && entry.limit == limit;
    });
    return found == end ? nullptr : found;
}

Entry *make_entry(Bucket *bucket, int64 limit) {
    Entry *place = std::min_element(bucket->entries, bucket->entries + kBucketSize, [](const Entry &a, const Entry &b) {
        const bool free_a = a.database == InvalidOid, free_b = b.database == InvalidOid;
        return free_a != free_b ? free_a : a.used_at < b.used_at;
    });
    if (place->database != InvalidOid && place->rate.interval > 0)
        bucket->emptied = Max(bucket->emptied, place->bucket.full_at);
    *place = {};
    place->database = MyDatabaseId;
    place->limit = limit;
    place->change = pg_atomic_add_fetch_u64(&limits->changes, 1);
    place->unlisted = place->change;
    place->next = 1;
    return place;
}

// Calls body(bucket) under its lock.
template <typename Body>
auto with_bucket(int64 limit, Body body) {
    const int bucket = bucket_of(limit);
    LWLock *lock = shared_lock(Lock::Limits, bucket % kLimitLocks);
    LWLockAcquire(lock, LW_EXCLUSIVE);
    const auto result = body(&limits->buckets[bucket]);
    LWLockRelease(lock);
    return result;
}

// Calls body(entry); entry is nullptr when nothing is known of the limit.
template <typename Body>
auto with_known(int64 limit, Body body) {
    return with_bucket(limit, [&](Bucket *bucket) { return body(find_entry(bucket, limit)); });
}

// The same, with a place for the limit.
template <typename Body>
auto with_entry(int64 limit, Body body) {
    return with_bucket(limit, [&](Bucket *bucket) {
        Entry *entry = find_entry(bucket, limit);
        if (entry == nullptr) entry = make_entry(bucket, limit);
        entry->used_at = GetCurrentTimestamp();
        return body(entry, bucket);
    });
}

void change(Entry *entry) { entry->change = pg_atomic_add_fetch_u64(&limits->changes, 1); }

// A number may be free that is not in `free`.
void lose_free(Entry *entry) {
    entry->complete = false;
    change(entry);
    entry->unlisted = entry->change;
}

void add_free(Entry *entry, int32 number) {
    const int32 *begin = entry->free, *end = begin + entry->free_count;
    if (std::find(begin, end, number) != end) return;
    if (entry->free_count < kFreeNumbers)
        entry->free[entry->free_count++] = number;
    else
        lose_free(entry);
}

// The bucket as it is under this rate: a new rate begins with an empty one.
core::Bucket *tokens_under(Entry *entry, Bucket *bucket, const core::Rate &rate, TimestampTz now) {
    const core::Micros span = rate.interval * rate.burst;
    // Written down, not only read so: what lies further ahead is from before a step of the clock, or another limit's.
    const core::Micros emptiest = core::saturating_add(entry->used_at, span);
    if (entry->rate.interval == rate.interval && entry->rate.burst == rate.burst) {
        entry->bucket.full_at = Min(entry->bucket.full_at, emptiest);
        return &entry->bucket;
    }
    const bool is_new = entry->rate.interval == 0;
    entry->bucket = core::empty_bucket(rate, now);
    // Since the server writes nobody has taken a token, but of those whose places were needed. While it was a standby
    // its primary did.
    if (is_new)
        entry->bucket.full_at = Min(Max(core::saturating_add(writing_since(), span), bucket->emptied), emptiest);
    entry->rate = rate;
    return &entry->bucket;
}

bool tell(const Told &told) {
    const bool missed = with_known(core::limit_of_slot(told.slot), [&](Entry *entry) {
        if (entry == nullptr) return false;
        change(entry);
        add_free(entry, core::number_of_slot(told.slot));
        const bool missed = entry->missed;
        entry->missed = false;
        return missed;
    });
    // Its limit's entry knows that it has room.
    if (told.key.empty()) return missed;
    const std::string_view queue(told.queue, strnlen(told.queue, NAMEDATALEN));
    return unpark_key(queue, told.key, GetCurrentTimestamp()) || missed;
}

Bound *bound_of(int64 slot, LWLock **lock) {
    const auto place = static_cast<int>((spread(static_cast<uint64>(slot) ^ MyDatabaseId) >> 32) % kBounds);
    *lock = shared_lock(Lock::Limits, place % kLimitLocks);
    return &limits->bounds[place];
}

// Calls body(bound) under its lock; it may be another slot's.
template <typename Body>
auto with_bound(int64 slot, Body body) {
    LWLock *lock;
    Bound *bound = bound_of(slot, &lock);
    LWLockAcquire(lock, LW_EXCLUSIVE);
    const auto result = body(bound);
    LWLockRelease(lock);
    return result;
}

bool is_of(const Bound &bound, int64 slot) { return bound.slot == slot && bound.database == MyDatabaseId; }

// Those of a transaction that committed, or everything that one took which did not.
void tell_of(bool freed) {
    for (int i = 0; i < pending.count; i++)
        if (pending.told[i].freed == freed && tell(pending.told[i])) let_waiters_look(pending.told[i].queue);
    if (!pending.anywhere) return;
    forget_slots();
    let_all_waiters_look();
}

bool any_told() { return pending.count > 0 || pending.anywhere; }

// The entry, unless there are too many.
Told *add_told(std::string_view queue, std::string_view key, int64 slot, bool freed) {
    if (limits == nullptr || !IsUnderPostmaster) return nullptr;
    if (pending.count == kMaxTold || slot == 0) {
        pending.anywhere = true;
        return nullptr;
    }
    if (pending.count == pending.room) {
        const int room = Max(pending.room * 2, 8);
        const Size size = sizeof(Told) * room;
        pending.told = static_cast<Told *>(pending.told == nullptr ? MemoryContextAlloc(TopTransactionContext, size)
                                                                   : repalloc(pending.told, size));
        pending.room = room;
    }
    Told *told = &pending.told[pending.count++];
    *told = {};
    told->slot = slot;
    told->freed = freed;
    memcpy(told->queue, queue.data(), Min(queue.size(), NAMEDATALEN - 1));
    if (!key.empty()) {
        auto *copy = static_cast<char *>(MemoryContextAlloc(TopTransactionContext, key.size()));
        memcpy(copy, key.data(), key.size());
        told->key = {copy, key.size()};
    }
    return told;
}

// A slot that this transaction has given back: for others it is not free yet.
Told *own_free_slot(int64 limit) {
    for (int i = 0; i < pending.count; i++) {
        Told *told = &pending.told[i];
        if (told->freed && !told->tried && core::limit_of_slot(told->slot) == limit) return told;
    }
    return nullptr;
}

}  // namespace

bool limit_is_full(int64 limit) {
    if (limits == nullptr || own_free_slot(limit) != nullptr || pending.anywhere) return false;
    const TimestampTz now = GetCurrentTimestamp();
    return with_known(limit, [&](Entry *entry) {
        if (entry == nullptr || !entry->complete || entry->free_count > 0) return false;
        // Far beyond what can have been set: before the clock stepped back.
        if (entry->until <= now || entry->until - now > core::kHour) return false;
        entry->missed = true;
        return true;
    });
}

int32 take_free_number(int64 limit) {
    if (limits == nullptr) return 0;
    if (Told *own = own_free_slot(limit)) {
        own->tried = true;
        return core::number_of_slot(own->slot);
    }
    return with_known(limit, [&](Entry *entry) {
        if (entry == nullptr || entry->free_count == 0) return 0;
        return entry->free[--entry->free_count];
    });
}

bool free_numbers_unknown(int64 limit) {
    if (limits == nullptr) return false;
    const TimestampTz now = GetCurrentTimestamp();
    return with_known(limit, [now](const Entry *entry) {
        return entry != nullptr && entry->free_count == 0 && (!entry->complete || entry->until <= now);
    });
}

void return_free_number(int64 limit, int32 number) {
    if (limits == nullptr) return;
    with_known(limit, [&](Entry *entry) {
        if (entry == nullptr) return false;
        change(entry);
        add_free(entry, number);
        return true;
    });
}

uint64 begin_slot_search(int64 limit, int32 max_running, int32 *number) {
    *number = 1;
    if (limits == nullptr) return 0;
    return with_entry(limit, [&](Entry *entry, Bucket *) {
        *number = entry->next <= max_running ? entry->next : 1;
        entry->search_began = entry->used_at;
        return entry->change;
    });
}

void end_slot_search(int64 limit, uint64 ticket, const int32 *numbers, int count, bool all, int32 end) {
    if (limits == nullptr || ticket == 0) return;
    with_entry(limit, [&](Entry *entry, Bucket *) {
        entry->next = end;
        // Those that were thought to be free have been looked at.
        if (all && entry->change == ticket) entry->free_count = 0;
        for (int i = 0; i < count; i++) add_free(entry, numbers[i]);
        // What became free meanwhile may be among those that were looked at before: it must be in the list.
        entry->complete = all && entry->unlisted <= ticket;
        const core::Micros took = Max(entry->used_at - entry->search_began, 0);
        entry->until = entry->used_at + Min(Max(kFullFor, took * kFullForLooks), core::kMinute);
        if (entry->complete && entry->free_count == 0) entry->missed = true;
        return true;
    });
}

int64 slot_bound(int64 slot) {
    if (limits == nullptr) return 0;
    return with_bound(slot, [slot](const Bound *bound) { return is_of(*bound, slot) ? bound->bound : 0; });
}

int64 next_slot_seq(int64 slot, TimestampTz now) {
    if (limits == nullptr) return now;
    return with_bound(slot, [&](const Bound *bound) {
        return is_of(*bound, slot) ? Max(now, Max(bound->bound, bound->latest)) : now;
    });
}

void slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq) {
    Told *told = add_told(queue, key, slot, false);
    if (told == nullptr) return;
    told->seq = seq;
    told->ticket = pg_atomic_add_fetch_u64(&limits->changes, 1);
    with_bound(slot, [told](Bound *bound) {
        if (!is_of(*bound, told->slot)) *bound = {MyDatabaseId, told->slot, 0, 0, 0};
        bound->latest = told->seq;
        bound->ticket = told->ticket;
        return true;
    });
}

void slot_freed_at_commit(std::string_view queue, std::string_view key, int64 slot) {
    add_told(queue, key, slot, true);
    // At once, too: this transaction may claim another job of the key.
    if (!key.empty()) unpark_key(queue, key, GetCurrentTimestamp());
}

void slots_freed_at_commit() { add_told({}, {}, 0, true); }

void raise_slot_bounds() {
    for (const Told *told = pending.told; told < pending.told + pending.count; told++) {
        if (told->freed || told->ticket == 0) continue;
        with_bound(told->slot, [told](Bound *bound) {
            if (is_of(*bound, told->slot) && bound->ticket == told->ticket) bound->bound = told->seq;
            return true;
        });
    }
}

void tell_freed_slots() {
    if (any_told()) tell_of(true);
    pending = {};
}

void tell_slots_not_taken() {
    if (any_told()) tell_of(false);
    pending = {};
}

void tell_slots_not_taken_by_savepoint() {
    if (!any_told()) return;
    tell_of(false);
    // What it had given back is held again.
    for (int i = 0; i < pending.count; i++) pending.told[i].ticket = 0;
}

void keep_slots() {
    PreparedEffects effects = pending.anywhere ? kClaimedJobs | kFreedSlots : 0;
    for (int i = 0; i < pending.count; i++) effects |= pending.told[i].freed ? kFreedSlots : kClaimedJobs;
    keep_effects(effects);
    pending = {};
}

bool spend_token(int64 limit, const core::Rate &rate, TimestampTz now, TimestampTz *due) {
    if (limits == nullptr) return false;
    return with_entry(limit, [&](Entry *entry, Bucket *bucket) {
        core::Bucket *tokens = tokens_under(entry, bucket, rate, now);
        *due = core::next_token(*tokens, rate, now);
        return core::take_token(tokens, rate, now);
    });
}

void return_spent_token(int64 limit, const core::Rate &rate) {
    if (limits == nullptr) return;
    with_known(limit, [&](Entry *entry) {
        if (entry == nullptr || entry->rate.interval != rate.interval) return false;
        core::return_token(&entry->bucket, rate);
        return true;
    });
}

int32 peek_tokens(int64 limit, const core::Rate &rate, TimestampTz now, TimestampTz *due) {
    if (limits == nullptr) return 0;
    return with_known(limit, [&](const Entry *entry) {
        Entry copy = {};
        if (entry != nullptr) copy = *entry;
        copy.used_at = now;
        const core::Bucket *tokens = tokens_under(&copy, &limits->buckets[bucket_of(limit)], rate, now);
        *due = core::next_token(*tokens, rate, now);
        return core::tokens_in(*tokens, rate, now);
    });
}

int32 tokens_of(int64 limit, const core::Rate &rate, TimestampTz now, TimestampTz *due) {
    if (limits == nullptr) return 0;
    return with_entry(limit, [&](Entry *entry, Bucket *bucket) {
        const core::Bucket *tokens = tokens_under(entry, bucket, rate, now);
        *due = core::next_token(*tokens, rate, now);
        return core::tokens_in(*tokens, rate, now);
    });
}

void forget_slots() {
    if (limits == nullptr) return;
    for (int lock = 0; lock < kLimitLocks; lock++) {
        LWLockAcquire(shared_lock(Lock::Limits, lock), LW_EXCLUSIVE);
        for (int bucket = lock; bucket < kBuckets; bucket += kLimitLocks)
            for (Entry &entry : limits->buckets[bucket].entries) {
                if (entry.database == MyDatabaseId) lose_free(&entry);
            }
        LWLockRelease(shared_lock(Lock::Limits, lock));
    }
    // Jobs whose keys had no room.
    if (anything_parked()) forget_marks();
}

Size limits_size() { return sizeof(Limits); }

void make_limits(void *memory, bool fresh) {
    limits = static_cast<Limits *>(memory);
    if (!fresh) return;
    memset(memory, 0, sizeof(Limits));
    pg_atomic_init_u64(&limits->changes, 0);
}

}  // namespace jobq
