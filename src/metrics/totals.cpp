// See totals.h. Lists and hash buckets change only under the exclusive lock. Numbers can also change under the shared
// lock.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/settings.h"
#include "compat/transaction.h"
#include "log/logged.h"
#include "metrics/totals.h"
#include "shmem/database_state.h"
#include "shmem/hash_table.h"
#include "shmem/memory.h"

extern "C" {
#include "port/atomics.h"
}

#include <algorithm>

namespace jobq {

namespace {

using SharedNumbers = pg_atomic_uint64[core::SeriesNumbers::kCount];

struct Entry : ChainedEntry {
    core::SeriesName name;
    SharedNumbers numbers;
};

struct DatabaseTotals {
    Oid database;  // InvalidOid if unused
    int entries;   // list of the entries of this database
    TimestampTz since;
    pg_atomic_uint64 missed;
    SharedNumbers unnamed;
};

struct SharedTotals {
    DatabaseTotals databases[kMaxDatabases];
};

SharedTotals *shared = nullptr;
HashTable<Entry> entries;

LWLock *lock() { return shared_lock(Part::Totals); }

DatabaseTotals *totals_of(Oid oid) { return part_of_database(shared->databases, oid); }

void clear(SharedNumbers &numbers) {
    for (auto &number : numbers) pg_atomic_init_u64(&number, 0);
}

void add(pg_atomic_uint64 *number, int64 more) {
    uint64 before = pg_atomic_read_u64(number);
    const auto sum = [&] { return static_cast<uint64>(core::sum_of_numbers(static_cast<int64>(before), more)); };
    while (!pg_atomic_compare_exchange_u64(number, &before, sum())) continue;
}

void add(SharedNumbers &numbers, const core::SeriesNumbers &more) {
    for (int i = 0; i < core::SeriesNumbers::kCount; i++)
        if (more.values[i] != 0) add(&numbers[i], more.values[i]);
}

core::SeriesNumbers numbers_of(SharedNumbers &numbers) {
    core::SeriesNumbers read;
    for (int i = 0; i < core::SeriesNumbers::kCount; i++)
        read.values[i] = static_cast<int64>(pg_atomic_read_u64(&numbers[i]));
    return read;
}

bool is_empty(SharedNumbers &numbers) {
    return std::all_of(std::begin(numbers), std::end(numbers),
                       [](pg_atomic_uint64 &number) { return pg_atomic_read_u64(&number) == 0; });
}

Entry *find_entry(Oid database, const core::SeriesName &name, uint64 hash) {
    return entries.find(database, hash,
                        [&name](const Entry &entry) { return entry.name.is(name.queue(), name.kind()); });
}

// The caller must hold the exclusive lock when it calls any of the functions below, up to and including drop().

// Returns the totals of the database and creates them if necessary. Returns nullptr if there is no room.
DatabaseTotals *obtain_database(Oid oid, TimestampTz since) {
    DatabaseTotals *database = totals_of(oid);
    if (database != nullptr) return database;
    database = totals_of(InvalidOid);
    if (database == nullptr) return nullptr;
    database->database = oid;
    database->entries = kNoEntry;
    database->since = since;
    pg_atomic_init_u64(&database->missed, 0);
    clear(database->unnamed);
    return database;
}

// Creates an entry. Returns nullptr if there is no room.
Entry *make_entry(DatabaseTotals *database, const core::SeriesName &name, uint64 hash) {
    Entry *entry = entries.take(database->database, hash, &database->entries);
    if (entry == nullptr) return nullptr;
    entry->name = name;
    clear(entry->numbers);
    return entry;
}

void start_series_over(DatabaseTotals *database, TimestampTz now) {
    entries.give_back_all(&database->entries);
    clear(database->unnamed);
    pg_atomic_write_u64(&database->missed, 0);
    database->since = now;
}

void free_queue(DatabaseTotals *database, std::string_view queue) {
    entries.each(database->entries, [&](Entry *entry) {
        if (entry->name.queue() == queue) entries.give_back(entry, &database->entries);
    });
}

// Removes the series of a dropped queue. If the name of the queue is empty, removes all series of the database.
void drop(DatabaseTotals *database, const core::SeriesName &name) {
    if (name.queue_bytes > 0)
        free_queue(database, name.queue());
    else
        start_series_over(database, end_of_transaction());
}

// The caller must hold a shared or exclusive lock when it calls one of the functions below, up to numbers_for().

// Returns whether the changes can be added under the shared lock. Returns false if an entry must be created or removed,
// which needs the exclusive lock.
bool can_add(const DatabaseTotals *database, const core::SeriesChange *changes, int count) {
    if (database == nullptr) return false;
    for (int i = 0; i < count; i++) {
        if (changes[i].dropped) return false;
        const core::SeriesName &name = changes[i].name;
        if (name.queue_bytes > 0 && entries.has_room(1) &&
            find_entry(database->database, name, changes[i].hash) == nullptr)
            return false;
    }
    return true;
}

// Returns the numbers of the series, or the numbers of the nameless series if the series has no entry. If `make` is
// true, first tries to create a missing entry, which needs the exclusive lock.
SharedNumbers &numbers_for(DatabaseTotals *database, const core::SeriesName &name, uint64 hash, bool make) {
    if (name.queue_bytes == 0) return database->unnamed;
    Entry *entry = find_entry(database->database, name, hash);
    if (entry == nullptr && make) entry = make_entry(database, name, hash);
    return entry == nullptr ? database->unnamed : entry->numbers;
}

bool comes_first(const Series &a, const Series &b) {
    const int by_queue = a.name.queue().compare(b.name.queue());
    return by_queue != 0 ? by_queue < 0 : a.name.kind() < b.name.kind();
}

}  // namespace

void add_totals(const core::SeriesChange *changes, int count, bool incomplete) {
    if (shared == nullptr) return;
    LWLockAcquire(lock(), LW_SHARED);
    DatabaseTotals *database = totals_of(MyDatabaseId);
    const bool make = !can_add(database, changes, count);
    if (make) {
        LWLockRelease(lock());
        LWLockAcquire(lock(), LW_EXCLUSIVE);
        database = obtain_database(MyDatabaseId, end_of_transaction());
    }
    if (database != nullptr) {
        // If the transaction has reinstalled the extension, resets the totals before the changes are added. Removes the
        // series of dropped queues after the changes have been added.
        for (const bool named : {false, true}) {
            for (int i = 0; named && i < count; i++)
                add(numbers_for(database, changes[i].name, changes[i].hash, make), changes[i].numbers);
            for (int i = 0; i < count; i++)
                if (changes[i].dropped && (changes[i].name.queue_bytes > 0) == named) drop(database, changes[i].name);
        }
        if (incomplete) pg_atomic_fetch_add_u64(&database->missed, 1);
    }
    LWLockRelease(lock());
}

void publish_totals() {
    const core::SeriesLog &series = transaction_log().series;
    if (series.changes.count > 0 || series.incomplete)
        add_totals(series.changes.items, series.changes.count, series.incomplete);
}

void drop_totals(Oid oid) {
    if (shared == nullptr) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseTotals *database = totals_of(oid);
    if (database != nullptr) {
        entries.give_back_all(&database->entries);
        database->database = InvalidOid;
    }
    LWLockRelease(lock());
}

int databases_with_totals(Oid *databases) {
    if (shared == nullptr) return 0;
    int count = 0;
    LWLockAcquire(lock(), LW_SHARED);
    for (const DatabaseTotals &database : shared->databases)
        if (database.database != InvalidOid) databases[count++] = database.database;
    LWLockRelease(lock());
    return count;
}

void miss_totals(Oid oid) {
    if (shared == nullptr) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseTotals *database = obtain_database(oid, GetCurrentTimestamp());
    if (database != nullptr) pg_atomic_fetch_add_u64(&database->missed, 1);
    LWLockRelease(lock());
}

TimestampTz reset_totals() {
    if (shared == nullptr) return 0;
    const TimestampTz now = GetCurrentTimestamp();
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseTotals *database = obtain_database(MyDatabaseId, now);
    if (database != nullptr) start_series_over(database, now);
    LWLockRelease(lock());
    return database == nullptr ? 0 : now;
}

Totals read_totals() {
    Totals totals = {};
    if (shared == nullptr) return totals;
    for (int room = 64;; room *= 2) {
        totals.series = allocate_array<Series>(room + 1);
        totals.count = 0;
        LWLockAcquire(lock(), LW_SHARED);
        DatabaseTotals *database = totals_of(MyDatabaseId);
        const bool fits = database == nullptr || entries.count(database->entries) <= room;
        totals.known = database != nullptr;
        if (database != nullptr && fits) {
            totals.since = database->since;
            totals.missed = static_cast<int64>(pg_atomic_read_u64(&database->missed));
            entries.each(database->entries, [&](Entry *entry) {
                totals.series[totals.count++] = {entry->name, numbers_of(entry->numbers)};
            });
            if (!is_empty(database->unnamed)) totals.series[totals.count++] = {{}, numbers_of(database->unnamed)};
        }
        LWLockRelease(lock());
        if (fits) break;
        pfree(totals.series);
    }
    int named = totals.count;
    if (named > 0 && totals.series[named - 1].name.queue_bytes == 0) named--;
    std::sort(totals.series, totals.series + named, comes_first);
    return totals;
}

SharedUsage totals_usage() {
    if (shared == nullptr) return {};
    LWLockAcquire(lock(), LW_SHARED);
    const SharedUsage usage = {entries.taken(), entries.capacity(), kNeverEvicts};
    LWLockRelease(lock());
    return usage;
}

Size totals_size() {
    return add_size(MAXALIGN(sizeof(SharedTotals)), HashTable<Entry>::size(settings.max_metric_series));
}

void make_totals(void *memory, bool fresh) {
    if (settings.max_metric_series == 0) return;
    shared = static_cast<SharedTotals *>(memory);
    entries.attach(static_cast<char *>(memory) + MAXALIGN(sizeof(SharedTotals)), settings.max_metric_series, fresh);
}

}  // namespace jobq
