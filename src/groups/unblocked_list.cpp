// See unblocked_list.h. There is one list per DatabaseState, and all lists take their entries from a common pool. If
// the pool has no free entry, a bit in the list requests a search instead.
#include "compat/pg.h"

#include "groups/line_start.h"
#include "groups/unblocked_list.h"
#include "log/logged.h"
#include "shmem/memory.h"

namespace jobq {

namespace {

constexpr int32 kNone = -1;
constexpr int kEntries = 32768;
// Maximum number of entries for one database, so that a database whose worker is switched off does not use the whole
// pool.
constexpr int kMaxListed = kEntries / 4;

struct Entry {
    Unblocked unblocked;
    int32 next;
};

struct List {
    pg_atomic_uint32 waiting;   // the list is not empty
    pg_atomic_uint64 promoter;  // own_number() of the last promoter; see begin_promoting()
    Oid database;
    Blockers anything;
    int32 first, last;
    int count;
    Blockers searches;  // the kinds whose search positions have been saved
    SearchPlace places[kSearched];
    TimestampTz rest_until[kSearched];
};

struct Lists {
    int32 free;
    List lists[kMaxDatabases];
    Entry entries[kEntries];
};

Lists *lists = nullptr;

List *list_of(const DatabaseState *db) { return &lists->lists[db - shared_state()->databases]; }

LWLock *unblock_lock() { return shared_lock(Part::Unblocked); }

// ---- The caller of each function up to the next "----" must hold the lock.

bool take_entry(List *list, Unblocked *taken) {
    const int32 first = list->first;
    if (first == kNone) return false;
    Entry *entry = &lists->entries[first];
    *taken = entry->unblocked;
    list->first = entry->next;
    if (list->first == kNone) list->last = kNone;
    list->count--;
    entry->next = lists->free;
    lists->free = first;
    return true;
}

void empty_list(List *list) {
    for (Unblocked taken; take_entry(list, &taken);) continue;
}

// Initializes the list of a DatabaseState that belonged to another database or to none. Requests a search for all kinds
// of blockers, because it is unknown what earlier commits have changed.
void start_list(List *list) {
    empty_list(list);
    list->database = MyDatabaseId;
    list->anything = kAllBlockers;
    list->searches = 0;
    memset(list->rest_until, 0, sizeof(list->rest_until));
    pg_atomic_write_u32(&list->waiting, 0);
    pg_atomic_write_u64(&list->promoter, 0);
}

// Adds an entry even if a search for this kind of blocker has been requested, because the search might take longer to
// find the unblocked jobs.
void add_entry(List *list, const Unblocked &unblocked) {
    const int32 added = lists->free;
    if (added == kNone || list->count == kMaxListed) {
        note_evictions(Part::Unblocked, list->count + 1);
        empty_list(list);
        list->anything = kAllBlockers;
        return;
    }
    list->count++;
    lists->free = lists->entries[added].next;
    lists->entries[added] = {unblocked, kNone};
    if (list->last == kNone)
        list->first = added;
    else
        lists->entries[list->last].next = added;
    list->last = added;
}

// ---- The caller of the functions below must not hold the lock.

void post(const DatabaseState *db, Blockers anything, const Unblocked *entries, int count) {
    List *list = list_of(db);
    LWLockAcquire(unblock_lock(), LW_EXCLUSIVE);
    if (list->database != MyDatabaseId) start_list(list);
    list->anything |= anything;
    for (int i = 0; i < count; i++) add_entry(list, entries[i]);
    pg_atomic_write_u32(&list->waiting, 1);
    LWLockRelease(unblock_lock());
}

void tell(Blockers anything, const Unblocked *entries, int count) {
    // If the database has no DatabaseState, it has no worker that could read the list, and jobq_tick() searches the
    // table.
    for_session_database([&](DatabaseState *db) {
        post(db, anything, entries, count);
        // Wakes the worker even if another session has already woken it, because the worker might have just emptied the
        // list. Setting a latch that is already set costs almost nothing.
        call_worker(db);
    });
}

// Returns a number that identifies this process among all processes since the server was started.
uint64 own_number() {
    return (static_cast<uint64>(MyStartTimestamp) << 22) ^ static_cast<uint64>(static_cast<uint32>(MyProcPid)) ^ 1;
}

}  // namespace

void publish_unblocked() {
    const TransactionLog &log = transaction_log();
    if (log.unblocked_count > 0 || log.unblocked_unknown != 0)
        tell(log.unblocked_unknown, log.unblocked, log.unblocked_count);
}

void unblock_now(const Unblocked *unblocked, int count, Blockers anything) {
    if (!shared_memory_ready() || !IsUnderPostmaster) return;
    publish_line_entries(unblocked, count, anything);
    tell(anything, unblocked, count);
}

void unblock_anything() { unblock_now(nullptr, 0, kAllBlockers); }

bool unblocked_waiting(const DatabaseState *db) {
    List *list = list_of(db);
    return list->database == MyDatabaseId && pg_atomic_read_u32(&list->waiting) != 0;
}

int take_unblocked(const DatabaseState *db, Unblocked *taken, int room, Blockers *anything) {
    List *list = list_of(db);
    int count = 0;
    LWLockAcquire(unblock_lock(), LW_EXCLUSIVE);
    if (list->database != MyDatabaseId) start_list(list);
    while (count < room && take_entry(list, &taken[count])) count++;
    *anything = list->anything;
    list->anything = 0;
    pg_atomic_write_u32(&list->waiting, list->first == kNone ? 0 : 1);
    LWLockRelease(unblock_lock());
    return count;
}

void reset_unblocked(const DatabaseState *db) {
    LWLockAcquire(unblock_lock(), LW_EXCLUSIVE);
    start_list(list_of(db));
    LWLockRelease(unblock_lock());
}

void give_back_unblocked(const DatabaseState *db, Blockers anything, const Unblocked *entries, int count) {
    if (anything != 0 || count > 0) post(db, anything, entries, count);
}

void hand_on_search(const DatabaseState *db, Blocker blocker, const SearchPlace &place) {
    List *list = list_of(db);
    LWLockAcquire(unblock_lock(), LW_EXCLUSIVE);
    if (list->database != MyDatabaseId) start_list(list);
    list->searches |= bit_of(blocker);
    list->places[search_of(blocker)] = place;
    pg_atomic_write_u32(&list->waiting, 1);
    LWLockRelease(unblock_lock());
}

bool take_search(const DatabaseState *db, Blocker blocker, SearchPlace *place) {
    List *list = list_of(db);
    LWLockAcquire(unblock_lock(), LW_EXCLUSIVE);
    const bool found = list->database == MyDatabaseId && (list->searches & bit_of(blocker)) != 0;
    if (found) *place = list->places[search_of(blocker)];
    list->searches &= ~bit_of(blocker);
    LWLockRelease(unblock_lock());
    return found;
}

void rest_from_searches(const DatabaseState *db, Blocker blocker, TimestampTz until) {
    List *list = list_of(db);
    LWLockAcquire(unblock_lock(), LW_EXCLUSIVE);
    if (list->database == MyDatabaseId) list->rest_until[search_of(blocker)] = until;
    LWLockRelease(unblock_lock());
}

bool searches_rest(const DatabaseState *db, Blocker blocker, TimestampTz now) {
    const List *list = list_of(db);
    LWLockAcquire(unblock_lock(), LW_SHARED);
    const TimestampTz until = list->database == MyDatabaseId ? list->rest_until[search_of(blocker)] : 0;
    LWLockRelease(unblock_lock());
    return until > now && until - now <= core::kHour;
}

bool begin_promoting() {
    const DatabaseState *db = known_session_database();
    return db != nullptr && pg_atomic_exchange_u64(&list_of(db)->promoter, own_number()) == own_number();
}

SharedUsage unblocked_list_usage() {
    int64 entries = 0;
    LWLockAcquire(unblock_lock(), LW_SHARED);
    for (const List &list : lists->lists) entries += list.count;
    LWLockRelease(unblock_lock());
    return {entries, kEntries, evictions(Part::Unblocked)};
}

Size unblocked_list_size() { return sizeof(Lists); }

void make_unblocked_list(void *memory, bool fresh) {
    lists = static_cast<Lists *>(memory);
    if (!fresh) return;
    for (int32 i = 0; i < kEntries; i++) lists->entries[i].next = i + 1 < kEntries ? i + 1 : kNone;
    for (List &list : lists->lists) {
        list.first = list.last = kNone;
        pg_atomic_init_u32(&list.waiting, 0);
        pg_atomic_init_u64(&list.promoter, 0);
    }
}

}  // namespace jobq
