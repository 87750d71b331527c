// See limit_state.h. If a set of the hash table is full, a new limit replaces a limit without spent tokens. If every
// limit in the set has spent tokens, the new limit replaces the least recently used limit of the database that has the
// most limits in the set.
#include "compat/pg.h"

#include "compat/queue_name.h"
#include "compat/settings.h"
#include "core/ablation.h"
#include "lanes/empty_ranges.h"
#include "limits/bucket_file.h"
#include "limits/limit_state.h"
#include "limits/throttled_ranges.h"
#include "log/logged.h"
#include "shmem/set_table.h"
#include "shmem/wall_clock.h"

#include <algorithm>

extern "C" {
#include "storage/ipc.h"
}

namespace jobq {

namespace {

constexpr int kBounds = 32768;
constexpr bool kHasBounds = core::built_with(core::Mechanism::SlotBounds);
// How long a limit is assumed to be full: this time, or 100 times the duration of the search if that is longer, but at
// most one minute. The assumption must expire, because a slot can become free without notification.
constexpr core::Micros kFullFor = 10 * core::kSecond;
constexpr int kFullForLooks = 100;
// Minimum time between two log messages that say that the table is too small.
constexpr core::Micros kSaidAgain = 10 * core::kMinute;

struct Entry {
    Oid database;  // InvalidOid if the entry is free
    int64 limit;
    uint64 change;         // changes whenever a slot might have become free
    uint64 unlisted;       // value of `change` when a number last became free without being added to `free`
    TimestampTz used_at;   // when the limit was last used; the least recently used limit is replaced first
    bool complete;         // whether `free` is assumed to contain every free number
    TimestampTz until;     // when `complete` expires
    volatile bool missed;  // whether a session has found the limit full and might be waiting
    TimestampTz search_began;
    int32 next;  // the slot number at which the next search begins
    int free_count;
    int32 free[kFreeNumbers];
    core::Rate rate;  // interval 0 if there is no bucket yet
    core::Bucket bucket;
    int64 queue;  // queue_limit_id of the queue to which the limit belongs
};

struct Bound {
    Oid database;
    int64 slot;
    int64 bound;
    int64 latest;   // the last jobs._slot_seq that a claim has used for the slot
    uint64 ticket;  // ticket of the claim that used `latest`
};

struct Set : EntrySet<Entry, Part::Limits> {
    core::ForgottenBuckets forgotten;  // what is known about buckets that were replaced
};

struct Limits {
    // The time since which all spent tokens have been recorded, as read from the bucket file. If it is 0,
    // writing_since() is used instead.
    TimestampTz since;
    // Counts changes and never repeats a value, so that a session notices if a limit was replaced and then added again.
    pg_atomic_uint64 changes;
    pg_atomic_uint64 said_at;  // time of the last log message about replaced buckets
    Bound bounds[kBounds];
};

Limits *limits = nullptr;
using Table = SetTable<Set>;
Table table = {};

int set_count() { return Table::sets_for(settings.max_limits); }

Entry *find_entry(Set *set, int64 limit) {
    return set->find([limit](const Entry &entry) { return entry.database == MyDatabaseId && entry.limit == limit; });
}

bool has_spent_tokens(const Entry &entry, TimestampTz now) {
    return entry.rate.interval > 0 && entry.bucket.full_at > now;
}

void init_entry(Entry *entry, Oid database, int64 limit) {
    *entry = {};
    entry->database = database;
    entry->limit = limit;
    entry->change = pg_atomic_add_fetch_u64(&limits->changes, 1);
    entry->unlisted = entry->change;
    entry->next = 1;
}

Entry *make_entry(Set *set, int64 limit) {
    const TimestampTz now = GetCurrentTimestamp();
    Entry *place = set->place(
        MyDatabaseId, [](const Entry &a, const Entry &b) { return a.used_at < b.used_at; },
        [now](const Entry &entry) { return has_spent_tokens(entry, now); });
    if (place->database != InvalidOid && has_spent_tokens(*place, now))
        core::forget_bucket(&set->forgotten, place->database, place->queue, place->bucket, now);
    init_entry(place, MyDatabaseId, limit);
    return place;
}

// Returns the time since which all spent tokens have been recorded in the buckets or the forgotten buckets. If the
// server was promoted from a standby, this time is not earlier than the promotion, because before the promotion, tokens
// were spent on the old primary.
TimestampTz buckets_since() { return limits->since != 0 ? limits->since : writing_since(); }

// Calls body(set) for the set to which the limit belongs, while holding the lock of the set.
template <typename Body>
auto with_set(int64 limit, Body body) {
    return table.with_set(limit >> core::kSlotBits, LW_EXCLUSIVE, body);
}

// Calls body(entry) for the limit's entry while holding the lock of its set. `entry` is nullptr if the table does not
// contain the limit.
template <typename Body>
auto with_known(int64 limit, Body body) {
    return with_set(limit, [&](Set *set) { return body(find_entry(set, limit)); });
}

// Logs that the table of limits is too small, at most once every kSaidAgain.
void say_too_small() {
    const auto now = static_cast<uint64>(GetCurrentTimestamp());
    uint64 said_at = pg_atomic_read_u64(&limits->said_at);
    if (said_at != 0 && now >= said_at && now - said_at < static_cast<uint64>(kSaidAgain)) return;
    if (!pg_atomic_compare_exchange_u64(&limits->said_at, &said_at, now)) return;
    ereport(LOG, (errmsg("more rate limits are in use than \"jobq.max_limits\" (%d) allows", settings.max_limits),
                  errdetail("Fewer jobs may start than the rates allow."),
                  errhint("Increase \"jobq.max_limits\" and restart the server.")));
}

// Calls body(entry, set) for the limit's entry while holding the lock of its set. First adds the limit to the table if
// the table does not contain it.
template <typename Body>
auto with_entry(int64 limit, Body body) {
    const int64 evicted = evictions(Part::Limits);
    const auto result = with_set(limit, [&](Set *set) {
        Entry *entry = find_entry(set, limit);
        if (entry == nullptr) entry = make_entry(set, limit);
        entry->used_at = GetCurrentTimestamp();
        return body(entry, set);
    });
    if (evictions(Part::Limits) != evicted) say_too_small();
    return result;
}

void change(Entry *entry) { entry->change = pg_atomic_add_fetch_u64(&limits->changes, 1); }

// Records that a slot might be free although its number is not in `free`.
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

// Returns the limit's bucket for this rate. If the rate of the limit has changed, the limit gets a new bucket without
// tokens.
core::Bucket *tokens_under(Entry *entry, const Set *set, int64 queue, const core::Rate &rate, TimestampTz now) {
    const core::Micros span = rate.interval * rate.burst;
    // The latest time at which the bucket can become full. If the bucket contains a later time, that time is wrong,
    // because the clock was set back or the time comes from another limit. It must be corrected; otherwise, the bucket
    // would seem empty for as long as the limit is used.
    const core::Micros emptiest = core::saturating_add(entry->used_at, span);
    if (entry->rate.interval == rate.interval && entry->rate.burst == rate.burst) {
        entry->bucket.full_at = Min(entry->bucket.full_at, emptiest);
        return &entry->bucket;
    }
    const bool is_new = entry->rate.interval == 0;
    entry->bucket = core::empty_bucket(rate, now);
    // A limit without a bucket has spent no token since buckets_since(), unless its bucket was replaced.
    const core::Micros forgotten = core::forgotten_until(set->forgotten, MyDatabaseId, queue);
    if (is_new) entry->bucket.full_at = Min(Max(core::saturating_add(buckets_since(), span), forgotten), emptiest);
    entry->rate = rate;
    entry->queue = queue;
    return &entry->bucket;
}

// Adds the slot to the free slots of its limit. Returns whether a worker might be waiting for this slot.
bool free_slot(const LoggedSlot &logged, std::string_view queue, std::string_view key) {
    const bool missed = with_known(core::limit_of_slot(logged.slot), [&](Entry *entry) {
        if (entry == nullptr) return false;
        change(entry);
        add_free(entry, core::number_of_slot(logged.slot));
        const bool waited_for = entry->missed;
        entry->missed = false;
        return waited_for;
    });
    // A slot for a whole queue belongs to no concurrency key, so no throttled range changes.
    if (key.empty()) return missed;
    return unthrottle_key(queue, key, GetCurrentTimestamp(), 1) || missed;
}

// Wakes up workers of the queue to which the slot belongs or, for a named limit, of each of its queues.
void wake_for(const TransactionLog &log, const LoggedSlot &slot, const char *queue, const SlotWaking &wake) {
    bool shared = false;
    for (const LoggedMember &member : log.members) {
        if (member.limit != core::limit_of_slot(slot.slot)) continue;
        wake.queue(log.queues.items[member.queue].name);
        shared = true;
    }
    if (!shared) wake.queue(queue);
}

// Calls body(bound) with the array element for the bound of the slot, while holding the lock of the element. Several
// slots share one element, so it might contain the bound of another slot.
template <typename Body>
auto with_bound(int64 slot, Body body) {
    const auto place = static_cast<int>(spread(MyDatabaseId, slot) % kBounds);
    LWLock *lock = table.lock_of(place);
    LWLockAcquire(lock, LW_EXCLUSIVE);
    const auto result = body(&limits->bounds[place]);
    LWLockRelease(lock);
    return result;
}

bool is_of(const Bound &bound, int64 slot) { return bound.slot == slot && bound.database == MyDatabaseId; }

// Copies the part of the set that the server needs when it starts again. Returns false if there is nothing to save.
bool copy_to_file(const Set &set, TimestampTz now, KeptSet *kept) {
    static_assert(lengthof(kept->buckets) == Set::kPlaces, "a set must fit");
    memset(kept, 0, sizeof(*kept));
    bool any = set.forgotten.others > now;
    for (const auto &queue : set.forgotten.queues) any = any || queue.full_at > now;
    kept->forgotten = set.forgotten;
    for (int i = 0; i < Set::kPlaces; i++) {
        const Entry &entry = set.entries[i];
        // Also saves full buckets, because their saved rates are needed to detect whether a rate has changed.
        if (entry.database == InvalidOid || entry.rate.interval == 0) continue;
        kept->buckets[i] = {.database = entry.database,
                            .limit = entry.limit,
                            .queue = entry.queue,
                            .used_at = entry.used_at,
                            .rate = entry.rate,
                            .bucket = entry.bucket};
        any = true;
    }
    return any;
}

// Copies a set from the file into the table. Needs no lock, because the caller is the postmaster and no other process
// exists yet.
void copy_from_file(const KeptSet &kept) {
    if (kept.set < 0 || kept.set >= table.count) return;
    Set *set = &table.sets[kept.set];
    set->forgotten = kept.forgotten;
    for (int i = 0; i < Set::kPlaces; i++) {
        const KeptBucket &bucket = kept.buckets[i];
        if (bucket.database == InvalidOid) continue;
        Entry *entry = &set->entries[i];
        init_entry(entry, bucket.database, bucket.limit);
        entry->queue = bucket.queue;
        entry->used_at = bucket.used_at;
        entry->rate = bucket.rate;
        entry->bucket = bucket.bucket;
    }
}

bool write_sets(FILE *file) {
    const TimestampTz now = GetCurrentTimestamp();
    for (int i = 0; i < table.count; i++) {
        KeptSet kept;
        if (!copy_to_file(table.sets[i], now, &kept)) continue;
        kept.set = i;
        if (!write_kept_set(file, kept)) return false;
    }
    return true;
}

// Saves the buckets. Runs in the postmaster when it exits, after the shutdown checkpoint. Does nothing after a crash,
// because the exit code is then not 0.
void keep_buckets(int code, Datum) {
    if (code == 0) write_bucket_file(buckets_since(), write_sets);
}

void clear_limits() {
    memset(static_cast<void *>(limits), 0, limits_size());
    pg_atomic_init_u64(&limits->changes, 0);
    pg_atomic_init_u64(&limits->said_at, 0);
}

}  // namespace

bool limit_is_full(int64 limit) {
    if (limits == nullptr || has_own_free_slot(limit)) return false;
    const TimestampTz now = GetCurrentTimestamp();
    return with_known(limit, [&](Entry *entry) {
        if (entry == nullptr || !entry->complete || entry->free_count > 0) return false;
        // A time that is more than an hour in the future was stored before the clock was set back, so it is ignored.
        if (entry->until <= now || entry->until - now > core::kHour) return false;
        entry->missed = true;
        return true;
    });
}

int32 take_free_number(int64 limit) {
    if (limits == nullptr) return 0;
    if (const int64 own = take_own_free_slot(limit)) return core::number_of_slot(own);
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

bool return_free_number(int64 limit, int32 number) {
    if (limits == nullptr) return false;
    return with_known(limit, [&](Entry *entry) {
        if (entry == nullptr) return false;
        change(entry);
        add_free(entry, number);
        return static_cast<bool>(entry->missed);
    });
}

uint64 begin_slot_search(int64 limit, int32 max_running, int32 *number) {
    *number = 1;
    if (limits == nullptr) return 0;
    return with_entry(limit, [&](Entry *entry, Set *) {
        *number = entry->next <= max_running ? entry->next : 1;
        entry->search_began = entry->used_at;
        return entry->change;
    });
}

void end_slot_search(int64 limit, uint64 ticket, const int32 *numbers, int count, bool all, int32 end) {
    if (limits == nullptr || ticket == 0) return;
    with_entry(limit, [&](Entry *entry, Set *) {
        entry->next = end;
        // Discards the old list, because the search has checked every number in it, and no slot has become free in the
        // meantime.
        if (all && entry->change == ticket) entry->free_count = 0;
        for (int i = 0; i < count; i++) add_free(entry, numbers[i]);
        // A slot can become free after the search has passed its number. So the list is complete only if every slot
        // that became free during the search was added to the list.
        entry->complete = all && entry->unlisted <= ticket;
        const core::Micros took = Max(entry->used_at - entry->search_began, 0);
        entry->until = entry->used_at + Min(Max(kFullFor, took * kFullForLooks), core::kMinute);
        if (entry->complete && entry->free_count == 0) entry->missed = true;
        return true;
    });
}

int64 slot_bound(int64 slot) {
    if (!kHasBounds || limits == nullptr) return 0;
    return with_bound(slot, [slot](const Bound *bound) { return is_of(*bound, slot) ? bound->bound : 0; });
}

int64 next_slot_seq(int64 slot, TimestampTz now) {
    if constexpr (!kHasBounds) return 0;
    if (limits == nullptr) return now;
    return with_bound(slot, [&](const Bound *bound) {
        return is_of(*bound, slot) ? Max(now, Max(bound->bound, bound->latest)) : now;
    });
}

void slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq) {
    if (limits == nullptr) return;
    const uint64 ticket = kHasBounds ? pg_atomic_add_fetch_u64(&limits->changes, 1) : 0;
    if (!publish_slot_taken(queue, key, slot, seq, ticket) || !kHasBounds) return;
    with_bound(slot, [&](Bound *bound) {
        if (!is_of(*bound, slot))
            *bound = {.database = MyDatabaseId, .slot = slot, .bound = 0, .latest = 0, .ticket = 0};
        bound->latest = seq;
        bound->ticket = ticket;
        return true;
    });
}

void raise_slot_bounds() {
    for (const LoggedSlot &logged : transaction_log().slots) {
        if (logged.ticket == 0) continue;
        with_bound(logged.slot, [&](Bound *bound) {
            if (is_of(*bound, logged.slot) && bound->ticket == logged.ticket) bound->bound = logged.seq;
            return true;
        });
    }
}

void publish_slots(bool committed, const SlotWaking &wake) {
    const TransactionLog &log = transaction_log();
    for (const LoggedSlot &slot : log.slots) {
        const bool is_free = committed ? slot.freed : slot.taken;
        const char *queue = log.queues.items[slot.queue].name;
        if (is_free && free_slot(slot, queue_view(queue), log.key_of(slot))) wake_for(log, slot, queue, wake);
    }
    // If the log does not contain all slots, forgets all information about free slots and wakes up all workers.
    if (!(committed ? log.slots_freed_unknown : log.slots_taken_unknown)) return;
    forget_slots();
    wake.all();
}

bool spend_token(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due) {
    if (limits == nullptr) return false;
    return with_entry(limit, [&](Entry *entry, Set *set) {
        core::Bucket *tokens = tokens_under(entry, set, queue, rate, now);
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

int32 peek_tokens(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due) {
    *due = DT_NOEND;
    if (limits == nullptr) return 0;
    return with_set(limit, [&](Set *set) {
        const Entry *entry = find_entry(set, limit);
        Entry copy = {};
        if (entry != nullptr) copy = *entry;
        copy.used_at = now;
        const core::Bucket *tokens = tokens_under(&copy, set, queue, rate, now);
        *due = core::next_token(*tokens, rate, now);
        return core::tokens_in(*tokens, rate, now);
    });
}

int32 tokens_of(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due) {
    *due = DT_NOEND;
    if (limits == nullptr) return 0;
    return with_entry(limit, [&](Entry *entry, Set *set) {
        const core::Bucket *tokens = tokens_under(entry, set, queue, rate, now);
        *due = core::next_token(*tokens, rate, now);
        return core::tokens_in(*tokens, rate, now);
    });
}

void forget_slots() {
    if (limits == nullptr) return;
    table.for_each(LW_EXCLUSIVE, [](Entry *entry) { lose_free(entry); });
    // The throttled ranges might contain jobs that can run now, because the limits of their keys might have free slots.
    if (anything_throttled()) forget_empty_ranges();
}

SharedUsage limits_usage() { return table.usage(); }

Size limits_size() { return add_size(MAXALIGN(sizeof(Limits)), mul_size(set_count(), sizeof(Set))); }

void make_limits(void *memory, bool fresh) {
    limits = static_cast<Limits *>(memory);
    table = {set_count(), reinterpret_cast<Set *>(static_cast<char *>(memory) + MAXALIGN(sizeof(Limits)))};
    if (!fresh) return;
    clear_limits();
    const TimestampTz since = read_bucket_file(copy_from_file);
    if (since == 0) clear_limits();
    limits->since = since;
    on_shmem_exit(keep_buckets, Datum(0));
}

}  // namespace jobq
