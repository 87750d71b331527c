// See leases.h. A set-associative table by the job's id; an entry's place is one of the eight of its bucket.
#include "pg/pg.h"

#include "settings.h"
#include "shared/leases.h"
#include "shared/memory.h"
#include "shared/slots.h"

#include <algorithm>

extern "C" {
#include "access/transam.h"
#include "common/hashfn.h"
#include "storage/procarray.h"
}

namespace jobq {

namespace {

constexpr int kBucketSize = 8;

struct Entry {
    Oid database;         // InvalidOid: free
    TransactionId made;   // by the (sub)transaction that claimed; FrozenTransactionId: long ago
    TransactionId ended;  // by the (sub)transaction that completed the job, or marked it as watched
    uint32 worker_hash;
    int64 job;
    int64 lease;
    TimestampTz due;
};

struct Leases {
    int bucket_count;
    Entry entries[FLEXIBLE_ARRAY_MEMBER];
};

Leases *leases = nullptr;

int bucket_count() { return Max(settings.leases_held / kBucketSize, 1); }

int bucket_of(int64 job) {
    const uint64 mixed = (static_cast<uint64>(job) + MyDatabaseId) * UINT64CONST(0x9e3779b97f4a7c15);
    return static_cast<int>((mixed >> 32) % static_cast<uint64>(leases->bucket_count));
}

Entry *bucket_begin(int bucket) { return &leases->entries[static_cast<size_t>(bucket) * kBucketSize]; }

LWLock *lock_of(int bucket) { return shared_lock(Lock::Leases, bucket % kLeaseLocks); }

// What became of a transaction. Of one that ended so long ago that the server may have forgotten it, the table knows.
enum class Fate { Open, Committed, Aborted, AskTheTable };

Fate fate_of(TransactionId xid) {
    if (!TransactionIdIsNormal(xid)) return Fate::AskTheTable;
    if (TransactionIdIsInProgress(xid)) return Fate::Open;
    if (TransactionIdPrecedes(xid, oldest_known_xid())) return Fate::AskTheTable;
    return TransactionIdDidCommit(xid) ? Fate::Committed : Fate::Aborted;
}

bool is_over(const Entry &entry) {
    return fate_of(entry.ended) == Fate::Committed || fate_of(entry.made) == Fate::Aborted;
}

// What became of the transactions that the current one has met in entries: a batch meets few, in thousands of entries.
// Good for one transaction: while it runs, no number is given to a second one.
struct Met {
    TransactionId xid;
    Fate fate;
};
constexpr int kMet = 16;
Met met[kMet];
TransactionId met_by = InvalidTransactionId;

Fate fate_met(TransactionId xid) {
    if (!TransactionIdIsNormal(xid)) return fate_of(xid);
    Met *known = &met[xid % kMet];
    if (known->xid == xid) return known->fate;
    const Fate fate = fate_of(xid);
    if (fate == Fate::Committed || fate == Fate::Aborted) *known = {xid, fate};
    return fate;
}

// As is_over, for a transaction that writes entries: `xid` is its own.
bool can_replace(const Entry &entry, TransactionId xid) {
    if (entry.database == InvalidOid) return true;
    if (entry.ended == xid) return false;
    if (fate_met(entry.ended) == Fate::Committed) return true;
    return entry.made != xid && fate_met(entry.made) == Fate::Aborted;
}

// Whether the table shows this session what the claim did.
bool is_visible(const Entry &entry) {
    if (TransactionIdIsCurrentTransactionId(entry.made)) return true;
    const Fate fate = fate_of(entry.made);
    return fate == Fate::Committed || fate == Fate::AskTheTable;
}

Entry *find_entry(int bucket, int64 job, int64 lease) {
    Entry *begin = bucket_begin(bucket);
    Entry *end = begin + kBucketSize;
    Entry *found = std::find_if(begin, end, [&](const Entry &entry) {
        return entry.job == job && entry.lease == lease && entry.database == MyDatabaseId;
    });
    return found == end ? nullptr : found;
}

bool enter(const Entry &entry) {
    const int bucket = bucket_of(entry.job);
    Entry *begin = bucket_begin(bucket);
    Entry *end = begin + kBucketSize;
    const TransactionId own = GetTopTransactionIdIfAny();
    if (met_by != own || own == InvalidTransactionId) {
        memset(met, 0, sizeof(met));
        met_by = own;
    }
    LWLockAcquire(lock_of(bucket), LW_EXCLUSIVE);
    Entry *place = std::find_if(begin, end, [&](const Entry &known) { return can_replace(known, entry.made); });
    if (place != end) *place = entry;
    LWLockRelease(lock_of(bucket));
    return place != end;
}

// Where the last search ended: entries that nobody can get rid of must not hide others.
int search_from = 0;

// Calls body(entry) for the entries of this session's database under their lock, until it returns false.
template <typename Body>
void each_entry(LWLockMode mode, Body body) {
    bool go_on = true;
    for (int n = 0; n < leases->bucket_count && go_on; n++) {
        const int bucket = search_from;
        search_from = (search_from + 1) % leases->bucket_count;
        Entry *begin = bucket_begin(bucket);
        // Without the lock: an entry that is made at this moment has time.
        const bool any =
            std::any_of(begin, begin + kBucketSize, [](const Entry &entry) { return entry.database == MyDatabaseId; });
        if (!any) continue;
        LWLockAcquire(lock_of(bucket), mode);
        for (Entry *entry = begin; entry < begin + kBucketSize && go_on; entry++)
            if (entry->database == MyDatabaseId) go_on = body(entry);
        LWLockRelease(lock_of(bucket));
    }
}

template <typename Wanted>
int list_leases(YoungLease *young, int room, Wanted wanted) {
    int count = 0;
    if (leases == nullptr) return count;
    each_entry(LW_SHARED, [&](const Entry *entry) {
        if (wanted(*entry) && is_visible(*entry) && !is_over(*entry)) young[count++] = {entry->job, entry->lease};
        return count < room;
    });
    return count;
}

}  // namespace

bool enter_lease(int64 job, int64 lease, uint32 worker_hash, TimestampTz due) {
    if (leases == nullptr || !watching_is_lazy()) return false;
    return enter({MyDatabaseId, GetCurrentTransactionId(), InvalidTransactionId, worker_hash, job, lease, due});
}

bool enter_found_lease(int64 job, int64 lease, uint32 worker_hash) {
    if (leases == nullptr) return false;
    const int bucket = bucket_of(job);
    LWLockAcquire(lock_of(bucket), LW_SHARED);
    const Entry *known = find_entry(bucket, job, lease);
    const bool has_entry = known != nullptr && !is_over(*known);
    LWLockRelease(lock_of(bucket));
    if (has_entry) return true;
    return enter({MyDatabaseId, FrozenTransactionId, InvalidTransactionId, worker_hash, job, lease, DT_NOBEGIN});
}

void end_lease(int64 job, int64 lease) {
    if (leases == nullptr) return;
    const int bucket = bucket_of(job);
    LWLockAcquire(lock_of(bucket), LW_EXCLUSIVE);
    if (Entry *entry = find_entry(bucket, job, lease)) entry->ended = GetCurrentTransactionId();
    LWLockRelease(lock_of(bucket));
}

void drop_lease(int64 job, int64 lease) {
    if (leases == nullptr) return;
    const int bucket = bucket_of(job);
    LWLockAcquire(lock_of(bucket), LW_EXCLUSIVE);
    if (Entry *entry = find_entry(bucket, job, lease)) *entry = {};
    LWLockRelease(lock_of(bucket));
}

int due_leases(TimestampTz now, YoungLease *young, int room) {
    int count = 0;
    if (leases == nullptr) return count;
    each_entry(LW_EXCLUSIVE, [&](Entry *entry) {
        if (is_over(*entry))
            *entry = {};
        else if (entry->due <= now && is_visible(*entry) && !TransactionIdIsCurrentTransactionId(entry->ended))
            young[count++] = {entry->job, entry->lease};
        return count < room;
    });
    return count;
}

int visible_leases(YoungLease *young, int room) {
    return list_leases(young, room, [](const Entry &) { return true; });
}

int leases_of_worker(uint32 worker_hash, YoungLease *young, int room) {
    return list_leases(young, room, [&](const Entry &entry) { return entry.worker_hash == worker_hash; });
}

int leases_of_this_transaction(YoungLease *young, int room) {
    int count = 0;
    if (leases == nullptr) return count;
    each_entry(LW_SHARED, [&](const Entry *entry) {
        if (TransactionIdIsCurrentTransactionId(entry->made) && !TransactionIdIsCurrentTransactionId(entry->ended))
            young[count++] = {entry->job, entry->lease};
        return count < room;
    });
    return count;
}

TimestampTz next_young_due() {
    TimestampTz earliest = DT_NOEND;
    if (leases == nullptr) return earliest;
    each_entry(LW_SHARED, [&](const Entry *entry) {
        if (!is_over(*entry)) earliest = Min(earliest, entry->due);
        return true;
    });
    return earliest;
}

uint32 worker_hash_of(const text *worker_id) {
    return hash_bytes(reinterpret_cast<const unsigned char *>(VARDATA_ANY(worker_id)),
                      static_cast<int>(VARSIZE_ANY_EXHDR(worker_id)));
}

int leases_held() { return leases == nullptr ? 0 : leases->bucket_count * kBucketSize; }

Size leases_size() { return offsetof(Leases, entries) + sizeof(Entry) * kBucketSize * bucket_count(); }

void make_leases(void *memory, bool fresh) {
    leases = static_cast<Leases *>(memory);
    if (!fresh) return;
    memset(memory, 0, leases_size());
    leases->bucket_count = bucket_count();
}

}  // namespace jobq
