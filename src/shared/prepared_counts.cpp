// See prepared_counts.h.
#include "pg/pg.h"

#include "settings.h"
#include "shared/counters.h"
#include "shared/memory.h"
#include "shared/prepared_counts.h"

extern "C" {
#include "access/twophase.h"
}

namespace jobq {

namespace {

// A transaction that changes more queues than this makes the counters unknown.
constexpr int kMaxQueues = 8;

struct PreparedChanges {
    Oid database;  // InvalidOid: free
    char gid[GIDSIZE];
    FullTransactionId xid;
    bool forget;
    int count;
    QueueChange changes[kMaxQueues];
};

struct PreparedTable {
    int capacity;
    PreparedChanges items[FLEXIBLE_ARRAY_MEMBER];
};

PreparedTable *shared = nullptr;

LWLock *lock() { return shared_lock(Lock::PreparedCounts); }

PreparedChanges *find_free() {
    for (int i = 0; i < shared->capacity; i++)
        if (!OidIsValid(shared->items[i].database)) return &shared->items[i];
    return nullptr;
}

bool names(const PreparedChanges &item, const char *gid) {
    return item.database == MyDatabaseId && strcmp(item.gid, gid) == 0;
}

// Copies the changes of that name, from item `*next` on; false when there are none (any more).
bool next_of(const char *gid, int *next, PreparedChanges *copy) {
    bool found = false;
    LWLockAcquire(lock(), LW_SHARED);
    while (!found && *next < shared->capacity) {
        const PreparedChanges &item = shared->items[(*next)++];
        found = names(item, gid);
        if (found) *copy = item;
    }
    LWLockRelease(lock());
    return found;
}

// False when another session has done so.
bool release(const PreparedChanges &copy, PreparedChanges *item) {
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    const bool still_there = names(*item, copy.gid) && FullTransactionIdEquals(item->xid, copy.xid);
    if (still_there) item->database = InvalidOid;
    LWLockRelease(lock());
    return still_there;
}

}  // namespace

Size prepared_counts_size() {
    if (settings.max_counted_queues == 0) return offsetof(PreparedTable, items);
    return add_size(offsetof(PreparedTable, items), mul_size(max_prepared_xacts, sizeof(PreparedChanges)));
}

void make_prepared_counts(void *memory, bool fresh) {
    shared = static_cast<PreparedTable *>(memory);
    if (!fresh) return;
    memset(memory, 0, prepared_counts_size());
    shared->capacity = settings.max_counted_queues == 0 ? 0 : max_prepared_xacts;
}

void keep_prepared_changes(const char *gid, const QueueChange *changes, int count, FullTransactionId xid, bool forget) {
    if (shared == nullptr || shared->capacity == 0) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    PreparedChanges *item = find_free();
    if (item != nullptr) {
        strlcpy(item->gid, gid, sizeof(item->gid));
        item->xid = xid;
        item->forget = forget || count > kMaxQueues;
        item->count = item->forget ? 0 : count;
        memcpy(static_cast<void *>(item->changes), changes, sizeof(QueueChange) * item->count);
        item->database = MyDatabaseId;
    }
    LWLockRelease(lock());
    // There is an item for each transaction that can be prepared: one that was never settled is in the way.
    if (item == nullptr) suspect_orphans();
}

void settle_prepared_changes(const char *gid) {
    if (shared == nullptr || shared->capacity == 0) return;
    PreparedChanges copy;
    bool known = false;
    for (int next = 0; next_of(gid, &next, &copy);) {
        // The name may have been taken again already, by a transaction that is not decided.
        const TransactionId xid = XidFromFullTransactionId(copy.xid);
        const bool committed = TransactionIdDidCommit(xid);
        if (!committed && !TransactionIdDidAbort(xid)) continue;
        known = true;
        if (release(copy, &shared->items[next - 1]) && committed)
            add_changes(copy.changes, copy.count, copy.xid, copy.forget);
    }
    if (!known && may_have_orphans()) forget_counters();
}

}  // namespace jobq
