// See young_leases.h. If a set of the hash table is full, a new entry can only replace an entry that has ended.
//
// Looking up the outcome of a transaction in the commit log can read from disk or raise an error, so it must not happen
// under an LWLock. Therefore, the code copies entries, looks up their transactions without a lock, and then changes the
// entries under the lock if they are still the same.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/settings.h"
#include "compat/transaction_fate.h"
#include "core/ablation.h"
#include "leases/young_leases.h"
#include "shmem/database_state.h"
#include "shmem/set_table.h"

extern "C" {
#include "common/hashfn.h"
}

namespace jobq {

namespace {

struct Entry {
    Oid database;         // InvalidOid if the entry is free
    TransactionId made;   // the (sub)transaction that claimed the job; FrozenTransactionId if that was long ago
    TransactionId ended;  // the (sub)transaction that completed the job or entered it into the rescue index
    uint32 worker_hash;
    int64 job;
    int64 lease;
    TimestampTz due;
};

using Set = EntrySet<Entry, Part::YoungLeases>;
using Table = SetTable<Set>;

// The set of an entry depends on the id of the job.
Table table = {};

int set_count() { return Table::sets_for(settings.max_young_leases); }

bool is_over(const Entry &entry) {
    return fate_of(entry.ended) == Fate::Committed || fate_of(entry.made) == Fate::Aborted;
}

// Cache of outcomes that the current transaction has looked up, which is useful because thousands of entries can come
// from only a few transactions. The cache is valid only until the end of the current transaction: while the transaction
// runs, no transaction ID can be reused, but later, a cached transaction ID might be reused.
struct CachedFate {
    TransactionId xid;
    Fate fate;
};
constexpr int kCachedFates = 16;
CachedFate cached_fates[kCachedFates];
TransactionId fates_cached_by = InvalidTransactionId;

Fate cached_fate(TransactionId xid) {
    if (!TransactionIdIsNormal(xid)) return fate_of(xid);
    CachedFate *known = &cached_fates[xid % kCachedFates];
    if (known->xid == xid) return known->fate;
    const Fate fate = fate_of(xid);
    if (fate == Fate::Committed || fate == Fate::Aborted) *known = {xid, fate};
    return fate;
}

// Returns whether transaction `xid` can replace the entry, because the entry is free or has ended. Unlike is_over(),
// uses the cache, and keeps entries that transaction `xid` has created or ended.
bool can_replace(const Entry &entry, TransactionId xid) {
    if (entry.database == InvalidOid) return true;
    if (entry.ended == xid) return false;
    if (cached_fate(entry.ended) == Fate::Committed) return true;
    return entry.made != xid && cached_fate(entry.made) == Fate::Aborted;
}

// Returns whether the claim might be visible to this session in the table. If the server no longer knows the outcome of
// the transaction, returns true, because the caller reads the row in any case.
bool is_visible(const Entry &entry) {
    if (TransactionIdIsCurrentTransactionId(entry.made)) return true;
    const Fate fate = fate_of(entry.made);
    return fate == Fate::Committed || fate == Fate::Forgotten;
}

bool is_same(const Entry &a, const Entry &b) {
    return a.database == b.database && a.made == b.made && a.ended == b.ended && a.job == b.job && a.lease == b.lease;
}

// Calls body(entry) under the lock of the set to which the job belongs. `entry` is nullptr if the lease has no entry.
// body() must not look up transactions.
template <typename Body>
auto with_entry(int64 job, int64 lease, LWLockMode mode, Body body) {
    return table.with_set(job, mode, [&](Set *set) {
        return body(set->find([&](const Entry &entry) {
            return entry.job == job && entry.lease == lease && entry.database == MyDatabaseId;
        }));
    });
}

bool enter(int64 job, int64 lease, uint32 worker_hash, TransactionId made, TimestampTz due) {
    const Entry entry = {.database = MyDatabaseId,
                         .made = made,
                         .ended = InvalidTransactionId,
                         .worker_hash = worker_hash,
                         .job = job,
                         .lease = lease,
                         .due = due};
    const TransactionId own = GetTopTransactionIdIfAny();
    if (fates_cached_by != own || own == InvalidTransactionId) {
        memset(cached_fates, 0, sizeof(cached_fates));
        fates_cached_by = own;
    }
    Set *set = &table.sets[table.set_of(entry.job)];
    for (;;) {
        // Reads without the lock. An inconsistent copy is harmless, because it is compared with the entry again under
        // the lock.
        Set copy = *set;
        const Entry *found = copy.find([&](const Entry &known) { return can_replace(known, entry.made); });
        if (found == nullptr) {
            note_evictions(Part::YoungLeases);
            return false;
        }
        Entry *place = set->begin() + (found - copy.begin());
        const bool entered = table.with_set(entry.job, LW_EXCLUSIVE, [&](Set *) {
            const bool same = is_same(*place, *found);
            if (same) *place = entry;
            return same;
        });
        if (entered) return true;
    }
}

bool is_of_this_database(const Entry &entry) { return entry.database == MyDatabaseId; }

// Calls body(copy) with a copy of each entry of this session's database. Frees the entries whose copies body() has
// marked as free.
template <typename Body>
void each_entry(Body body) {
    for (int n = 0; n < table.count; n++) {
        Set *set = &table.sets[n];
        LWLock *lock = table.lock_of(n);
        // Reads without the lock and might therefore miss entries that other sessions are creating now. The next search
        // finds them.
        if (set->find(is_of_this_database) == nullptr) continue;
        LWLockAcquire(lock, LW_SHARED);
        const Set read = *set;
        LWLockRelease(lock);
        Set judged = read;
        bool any_over = false;
        for (Entry *entry = judged.begin(); entry < judged.end(); entry++) {
            if (!is_of_this_database(*entry)) continue;
            body(entry);
            any_over |= entry->database == InvalidOid;
        }
        if (!any_over) continue;
        LWLockAcquire(lock, LW_EXCLUSIVE);
        for (int i = 0; i < Set::kPlaces; i++)
            if (judged.entries[i].database == InvalidOid && is_same(set->entries[i], read.entries[i]))
                set->entries[i] = {};
        LWLockRelease(lock);
    }
}

// Returns the job ids (bigint[]) of the entries for which wanted(entry) is true. Omits entries that have ended and
// entries whose claims are not visible to the current transaction.
template <typename Wanted>
Datum ids_of(Wanted wanted) {
    Notes<Datum> ids = {};
    each_entry([&](const Entry *entry) {
        if (wanted(*entry) && is_visible(*entry) && !is_over(*entry)) ids.add(Int64GetDatum(entry->job));
    });
    return array_of(ids.items, ids.count, INT8OID);
}

}  // namespace

bool enter_lease(int64 job, int64 lease, uint32 worker_hash, TimestampTz due) {
    if (!table.exists() || !indexing_is_lazy()) return false;
    return enter(job, lease, worker_hash, GetCurrentTransactionId(), due);
}

bool enter_found_lease(int64 job, int64 lease, uint32 worker_hash) {
    if (!table.exists()) return false;
    const Entry known = with_entry(job, lease, LW_SHARED, [](const Entry *e) { return e != nullptr ? *e : Entry{}; });
    if (is_of_this_database(known) && !is_over(known)) return true;
    return enter(job, lease, worker_hash, FrozenTransactionId, DT_NOBEGIN);
}

void end_lease(int64 job, int64 lease) {
    if (!table.exists()) return;
    // Assigns the transaction ID before taking the LWLock, because the assignment can raise an error or take locks.
    const TransactionId xid = GetCurrentTransactionId();
    with_entry(job, lease, LW_EXCLUSIVE, [xid](Entry *entry) {
        if (entry != nullptr) entry->ended = xid;
        return true;
    });
}

void drop_lease(int64 job, int64 lease) {
    if (!table.exists()) return;
    with_entry(job, lease, LW_EXCLUSIVE, [](Entry *entry) {
        if (entry != nullptr) *entry = {};
        return true;
    });
}

Notes<YoungLease> due_leases(TimestampTz now) {
    Notes<YoungLease> due = {};
    each_entry([&](Entry *entry) {
        if (is_over(*entry))
            entry->database = InvalidOid;
        else if (entry->due <= now && is_visible(*entry) && !TransactionIdIsCurrentTransactionId(entry->ended))
            due.add({entry->job, entry->lease});
    });
    return due;
}

Datum unindexed_jobs() {
    return ids_of([](const Entry &) { return true; });
}

Datum unindexed_jobs_of_worker(const text *worker_id) {
    const uint32 hash = worker_hash_of(worker_id);
    return ids_of([hash](const Entry &entry) { return entry.worker_hash == hash; });
}

Notes<YoungLease> leases_of_this_transaction() {
    Notes<YoungLease> own = {};
    each_entry([&](const Entry *entry) {
        if (TransactionIdIsCurrentTransactionId(entry->made) && !TransactionIdIsCurrentTransactionId(entry->ended))
            own.add({entry->job, entry->lease});
    });
    return own;
}

TimestampTz next_young_due() {
    TimestampTz earliest = DT_NOEND;
    each_entry([&](const Entry *entry) {
        if (!is_over(*entry)) earliest = Min(earliest, entry->due);
    });
    return earliest;
}

void forget_leases_of(Oid database) {
    if (!table.exists()) return;
    for (int n = 0; n < table.count; n++) {
        Set *set = &table.sets[n];
        const auto is_its = [database](const Entry &entry) { return entry.database == database; };
        // Reads without the lock. This misses no entry, because claims in the database do not enter leases at present
        // and will not do so until another background worker has run its first round in the database.
        if (set->find(is_its) == nullptr) continue;
        LWLockAcquire(table.lock_of(n), LW_EXCLUSIVE);
        while (Entry *entry = set->find(is_its)) *entry = {};
        LWLockRelease(table.lock_of(n));
    }
}

uint32 worker_hash_of(const text *worker_id) {
    return hash_bytes(reinterpret_cast<const unsigned char *>(VARDATA_ANY(worker_id)),
                      static_cast<int>(VARSIZE_ANY_EXHDR(worker_id)));
}

SharedUsage young_leases_usage() { return table.usage(); }

Size young_leases_size() { return sizeof(Set) * set_count(); }

void make_young_leases(void *memory, bool) {
    if constexpr (!core::built_with(core::Mechanism::YoungLeases)) return;
    table = {set_count(), static_cast<Set *>(memory)};
}

}  // namespace jobq
