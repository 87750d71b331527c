// See prepared.h.
#include "compat/pg.h"

#include "base/wide_xid.h"
#include "compat/transaction_fate.h"
#include "groups/line_start.h"
#include "job/logged.h"
#include "metrics/totals.h"
#include "shmem/memory.h"
#include "stats/counters.h"
#include "stats/counts_policy.h"
#include "wait/at_commit.h"
#include "wait/prepared.h"

#include <algorithm>

extern "C" {
#include "access/twophase.h"
#include "access/xlog.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "storage/procarray.h"
}

namespace jobq {

namespace {

// A transaction that changes more queues than this makes the counters unknown.
constexpr int kMaxQueues = 8;
// Of what is behind these, or finds no place as it is, the totals have no names.
constexpr int kMaxSeries = 3;

struct Prepared {
    Oid database;  // InvalidOid: free
    FullTransactionId xid;
    PreparedEffects effects;
    bool unknown;  // its changes of the counters
    int count;
    QueueChange changes[kMaxQueues];
    bool totals_unknown;
    int series_count;
    core::SeriesChange series[kMaxSeries];
};

struct PreparedTable {
    pg_atomic_uint32 count;
    volatile bool adopted;  // what was prepared before is here
    int capacity;
    Prepared items[FLEXIBLE_ARRAY_MEMBER];
};

PreparedTable *shared = nullptr;

LWLock *lock() { return shared_lock(Lock::Prepared); }

bool is_over(const Prepared &item) { return !TransactionIdIsInProgress(XidFromFullTransactionId(item.xid)); }

// None where nothing can be prepared.
int places() { return max_prepared_xacts == 0 ? 0 : max_prepared_xacts + MaxBackends; }

// ---- under the lock

// A place for one that is being prepared. There are as many as the server can have, and one for each session that has
// just ended one and is yet to tell of it: when all are taken, one is of a transaction that is over and whose database
// nobody has come by since; it is copied to *lost.
Prepared *find_place(Prepared *lost) {
    Prepared *end = shared->items + shared->capacity;
    Prepared *place = std::find_if(shared->items, end, [](const Prepared &item) { return !OidIsValid(item.database); });
    if (place != end) return place;
    place = std::find_if(shared->items, end, is_over);
    if (place == end) return nullptr;
    *lost = *place;
    pg_atomic_fetch_sub_u32(&shared->count, 1);
    return place;
}

Prepared *enter(Prepared *place, Oid database, FullTransactionId xid) {
    *place = {};
    place->database = database;
    place->xid = xid;
    pg_atomic_fetch_add_u32(&shared->count, 1);
    return place;
}

// ----

PreparedEffects effects_of(const TransactionLog &log) {
    PreparedEffects effects = 0;
    if (log.round.any) effects |= kDeadlines;
    if (log.ready.count > 0 || log.ready_unknown) effects |= kReadyJobs;
    const auto settings_changed = [](const LoggedQueue &queue) { return queue.settings; };
    if (log.queues_unknown || std::any_of(log.queues.begin(), log.queues.end(), settings_changed)) effects |= kLooks;
    if (log.finished_count > 0 || log.finished_unknown) effects |= kFinishedJobs;
    if (log.unblocked_count > 0 || log.unblocked_unknown != 0 || log.unblocking) effects |= kUnblockedJobs;
    const auto freed = [](const LoggedSlot &slot) { return slot.freed; };
    const auto taken = [](const LoggedSlot &slot) { return slot.taken; };
    if (log.slots_freed_unknown || std::any_of(log.slots.begin(), log.slots.end(), freed)) effects |= kFreedSlots;
    if (log.slots_taken_unknown || std::any_of(log.slots.begin(), log.slots.end(), taken)) effects |= kClaimedJobs;
    if (log.claims) effects |= kClaimedJobs;
    if (log.round.any && log.round.extension) effects |= kExtensionChanged;
    if (log.databases) effects |= kDatabasesChanged;
    return effects;
}

// The server holds a dummy process for each transaction that is prepared, and does not clear it afterwards. None of
// these has been taken by a new one yet: whoever prepares comes by here before. So nothing is missed, not even a
// transaction that is over just now.
void adopt() {
    if (shared->adopted || RecoveryInProgress()) return;
    const FullTransactionId next = ReadNextFullTransactionId();
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    for (int i = 0; i < max_prepared_xacts && !shared->adopted; i++) {
        const PGPROC &proc = PreparedXactProcs[i];
        if (!TransactionIdIsValid(proc.xid)) continue;
        const uint64 xid = core::widen_xid(proc.xid, U64FromFullTransactionId(next));
        Prepared *item = enter(&shared->items[i], proc.databaseId, FullTransactionIdFromU64(xid));
        item->effects = kAllEffects;
        item->unknown = true;
        item->totals_unknown = true;
    }
    shared->adopted = true;
    LWLockRelease(lock());
}

// The next one of this database, from item `*next` on; false: there is none any more.
bool next_here(int *next, Prepared *copy) {
    bool found = false;
    LWLockAcquire(lock(), LW_SHARED);
    while (!found && *next < shared->capacity) {
        const Prepared &item = shared->items[(*next)++];
        found = item.database == MyDatabaseId;
        if (found) *copy = item;
    }
    LWLockRelease(lock());
    return found;
}

bool is_same(const Prepared &copy, const Prepared &item) {
    return item.database == copy.database && FullTransactionIdEquals(item.xid, copy.xid);
}

// Adds its changes of the counters, unless another session has done so.
void count_once(const Prepared &copy, Prepared *item) {
    const auto has_counts = [](const Prepared &one) { return one.count > 0 || one.unknown; };
    const auto has_totals = [](const Prepared &one) { return one.series_count > 0 || one.totals_unknown; };
    if (!has_counts(copy) && !has_totals(copy)) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    if (is_same(copy, *item)) {
        if (has_counts(*item)) add_changes(item->changes, item->count, item->xid, item->unknown);
        if (has_totals(*item)) add_totals(item->series, item->series_count, item->totals_unknown);
        item->count = item->series_count = 0;
        item->unknown = item->totals_unknown = false;
    }
    LWLockRelease(lock());
}

// Those that find no place are added up without a name, in the last one.
void keep_series(const core::SeriesLog &log, Prepared *item) {
    item->totals_unknown = log.incomplete;
    const int count = log.changes.count;
    item->series_count = Min(count, kMaxSeries);
    const int named = count > kMaxSeries ? kMaxSeries - 1 : count;
    std::copy(log.changes.items, log.changes.items + named, item->series);
    if (named == count) return;
    core::SeriesChange *rest = &item->series[named];
    *rest = {};
    for (int i = named; i < count; i++) core::add_numbers(&rest->numbers, log.changes.items[i].numbers);
}

void release(const Prepared &copy, Prepared *item) {
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    if (is_same(copy, *item)) {
        item->database = InvalidOid;
        pg_atomic_fetch_sub_u32(&shared->count, 1);
    }
    LWLockRelease(lock());
}

// The entry goes last: whoever has ended the transaction, and finds no entry any more, goes on as one who has told.
// Two may tell of the same one; but for the counters that does no harm. And who wakes up finds the counters right.
void tell(const Prepared &ended, Prepared *item) {
    // What the server does not remember any more may have committed.
    const bool committed = fate_of(XidFromFullTransactionId(ended.xid)) != Fate::Aborted;
    if (committed) count_once(ended, item);
    publish_prepared(ended.effects & (committed ? kEffectsOfCommit : kEffectsOfRollback));
    release(ended, item);
}

// Of a transaction that ends.
bool may_have_ended_one() {
    return pg_atomic_read_u32(&shared->count) > 0 && !FullTransactionIdIsValid(GetTopFullTransactionIdIfAny());
}

}  // namespace

void adopt_prepared() {
    if (shared != nullptr && shared->capacity > 0) adopt();
}

void settle_prepared_before_commit() {
    adopt_prepared();
    if (shared != nullptr && XactLastRecEnd != 0 && may_have_ended_one()) settle_prepared();
}

void settle_prepared_at_abort() {
    adopt_prepared();
    if (shared != nullptr && may_have_ended_one()) settle_prepared();
}

void keep_log() {
    const TransactionLog &log = transaction_log();
    const PreparedEffects effects = effects_of(log);
    const int count = log.changes.count;
    const bool no_totals = log.series.changes.count == 0 && !log.series.incomplete;
    if (shared == nullptr || shared->capacity == 0) return;
    if (effects == 0 && count == 0 && !log.counts_unknown && no_totals) return;
    Prepared lost = {};
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    if (Prepared *place = find_place(&lost)) {
        Prepared *item = enter(place, MyDatabaseId, GetTopFullTransactionIdIfAny());
        item->effects = effects;
        item->unknown = log.counts_unknown || count > kMaxQueues;
        item->count = item->unknown ? 0 : count;
        memcpy(static_cast<void *>(item->changes), log.changes.items, sizeof(QueueChange) * item->count);
        keep_series(log.series, item);
        // Counted again, by the worker.
        if (item->unknown) item->effects |= kDeadlines;
    }
    LWLockRelease(lock());
    if (!OidIsValid(lost.database)) return;
    forget_counters(lost.database);
    miss_totals(lost.database);
    forget_lines(lost.database);
}

void settle_prepared() {
    if (shared == nullptr || !OidIsValid(MyDatabaseId)) return;
    Prepared copy;
    for (int next = 0; next_here(&next, &copy);)
        if (is_over(copy)) tell(copy, &shared->items[next - 1]);
}

Size prepared_size() { return add_size(offsetof(PreparedTable, items), mul_size(places(), sizeof(Prepared))); }

void make_prepared(void *memory, bool fresh) {
    shared = static_cast<PreparedTable *>(memory);
    if (!fresh) return;
    memset(memory, 0, prepared_size());
    pg_atomic_init_u32(&shared->count, 0);
    shared->capacity = places();
}

}  // namespace jobq
