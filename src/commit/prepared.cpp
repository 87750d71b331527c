// See prepared.h.
#include "compat/pg.h"

#include "commit/at_commit.h"
#include "commit/prepared.h"
#include "compat/settings.h"
#include "compat/transaction.h"
#include "compat/transaction_fate.h"
#include "core/wide_xid.h"
#include "groups/line_start.h"
#include "log/logged.h"
#include "metrics/counters.h"
#include "metrics/totals.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

#include <algorithm>

extern "C" {
#include "access/twophase.h"
#include "access/xlog.h"
#include "port/atomics.h"
#include "storage/proc.h"
}

namespace jobq {

namespace {

// Maximum number of queues for which an entry can store changes to the counters. If a prepared transaction changes more
// queues, the counters become unknown.
constexpr int kMaxQueues = 8;
// Maximum number of series (each has the totals of one queue and kind) that an entry can store. If a transaction
// changes more series, the last element combines the remaining series and has no name.
constexpr int kMaxSeries = 3;

struct Prepared {
    Oid database;  // InvalidOid: free
    FullTransactionId xid;
    PreparedEffects effects;
    bool unknown;  // its changes to the counters are unknown
    int count;
    QueueChange changes[kMaxQueues];
    bool totals_unknown;
    int series_count;
    core::SeriesChange series[kMaxSeries];
};

struct PreparedTable {
    pg_atomic_uint32 count;
    volatile bool adopted;  // the transactions that were prepared before the server start have been added
    int capacity;
    Prepared items[FLEXIBLE_ARRAY_MEMBER];
};

PreparedTable *shared = nullptr;

LWLock *lock() { return shared_lock(Part::Prepared); }

Fate fate_of(const Prepared &item) { return jobq::fate_of(XidFromFullTransactionId(item.xid)); }

// Returns the number of entries in shared memory, or 0 if the server allows no prepared transactions.
int places() { return max_prepared_xacts == 0 ? 0 : max_prepared_xacts + MaxBackends; }

// ---- Functions whose caller must hold the lock.

// Returns a free entry. make_room() ensures that there is a free entry for each session that prepares a transaction.
Prepared *find_place() {
    Prepared *end = shared->items + shared->capacity;
    Prepared *place = std::find_if(shared->items, end, [](const Prepared &item) { return !OidIsValid(item.database); });
    return place == end ? nullptr : place;
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

// Adds entries for the transactions that were prepared before the server was started or promoted. Finds them by the
// dummy PGPROC that the server keeps for each prepared transaction and does not clear when the transaction ends. No
// later prepared transaction can have reused such a PGPROC, because every session calls this function before it
// prepares a transaction. Therefore, the search finds every such transaction, even if it has just ended.
void adopt() {
    if (shared == nullptr || shared->capacity == 0 || shared->adopted || RecoveryInProgress()) return;
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

// Copies the next entry, from index `*next` on, for which is_wanted() returns true. Returns false if there is none.
template <typename IsWanted>
bool next_entry(int *next, Prepared *copy, IsWanted is_wanted) {
    bool found = false;
    LWLockAcquire(lock(), LW_SHARED);
    while (!found && *next < shared->capacity) {
        const Prepared &item = shared->items[(*next)++];
        found = OidIsValid(item.database) && is_wanted(item);
        if (found) *copy = item;
    }
    LWLockRelease(lock());
    return found;
}

bool next_here(int *next, Prepared *copy) {
    return next_entry(next, copy, [](const Prepared &item) { return item.database == MyDatabaseId; });
}

bool is_same(const Prepared &copy, const Prepared &item) {
    return item.database == copy.database && FullTransactionIdEquals(item.xid, copy.xid);
}

// Applies the transaction's changes to the counters and totals, unless another session has already applied them.
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

// Stores the totals of the transaction. If the transaction has changed too many series, the last element contains the
// sum of the remaining series and has no name.
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

// Returns false only if the transaction has definitely not committed. Returns true if the server no longer knows the
// outcome of the transaction.
bool has_committed(Fate fate) { return fate != Fate::Aborted; }

PreparedEffects effects_of_end(const Prepared &ended, Fate fate) {
    return ended.effects & (has_committed(fate) ? kEffectsOfCommit : kEffectsOfRollback);
}

// Publishes the effects of a transaction that has ended. Updates the counters first, so that they are correct for the
// sessions that are woken up. Releases the entry last, because the session that ended the transaction concludes from a
// missing entry that the effects have been published. Two sessions might publish the same transaction at the same time;
// this is harmless, because count_once() updates the counters only once.
void tell(const Prepared &ended, Fate fate, Prepared *item) {
    if (has_committed(fate)) count_once(ended, item);
    publish_prepared(effects_of_end(ended, fate));
    release(ended, item);
}

// Frees, in all databases, the entries of prepared transactions that have committed or rolled back. Does not apply
// their changes to the counters, so the counters of these databases are unknown until the jobs are counted again. The
// workers of these databases publish the effects of the transactions.
void release_elsewhere() {
    Prepared copy;
    const auto any = [](const Prepared &) { return true; };
    for (int next = 0; next_entry(&next, &copy, any);) {
        const Fate fate = fate_of(copy);
        if (fate == Fate::Open) continue;
        forget_counters(copy.database);
        miss_totals(copy.database);
        forget_lines(copy.database);
        if (DatabaseState *db = find_database_state(copy.database)) {
            pg_atomic_fetch_or_u32(&db->unpublished, effects_of_end(copy, fate));
            publish_due(db, GetCurrentTimestamp());
        }
        release(copy, &shared->items[next - 1]);
    }
}

// Publishes the effects that sessions of other databases have left for this database by calling release_elsewhere().
void publish_what_is_left() {
    DatabaseState *db = find_database_state(MyDatabaseId);
    if (db == nullptr || pg_atomic_read_u32(&db->unpublished) == 0) return;
    publish_prepared(pg_atomic_exchange_u32(&db->unpublished, 0));
}

bool has_room() { return shared->capacity - static_cast<int>(pg_atomic_read_u32(&shared->count)) >= MaxBackends; }

// Makes sure that keep_log() finds a free entry. MaxBackends free entries are enough, because at most MaxBackends
// sessions have called this function and not used their entry yet. MaxBackends entries are free as soon as the entries
// of all ended transactions have been released, because at most max_prepared_xacts transactions have not ended.
void make_room() {
    while (!has_room()) {
        CHECK_FOR_INTERRUPTS();
        settle_prepared();
        release_elsewhere();
    }
}

// Returns whether the current transaction, which is ending, might have ended a prepared transaction.
bool may_have_ended_one() {
    return pg_atomic_read_u32(&shared->count) > 0 && !FullTransactionIdIsValid(GetTopFullTransactionIdIfAny());
}

}  // namespace

void settle_prepared_before_commit() {
    adopt();
    if (shared != nullptr && XactLastRecEnd != 0 && may_have_ended_one()) settle_prepared();
}

void make_room_before_prepare() {
    adopt();
    if (shared != nullptr && shared->capacity > 0) make_room();
}

void leave_prepared_to_worker() {
    adopt();
    Prepared open;
    int next = 0;
    if (shared == nullptr || !OidIsValid(MyDatabaseId) || !may_have_ended_one() || !next_here(&next, &open)) return;
    const TimestampTz due = end_of_transaction() + tick_interval();
    for_session_database([due](DatabaseState *db) { publish_due(db, due); });
}

void keep_log() {
    const TransactionLog &log = transaction_log();
    const PreparedEffects effects = effects_of(log);
    const int count = log.changes.count;
    const bool no_totals = log.series.changes.count == 0 && !log.series.incomplete;
    if (shared == nullptr || shared->capacity == 0) return;
    if (effects == 0 && count == 0 && !log.counts_unknown && no_totals) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    if (Prepared *place = find_place()) {
        Prepared *item = enter(place, MyDatabaseId, GetTopFullTransactionIdIfAny());
        item->effects = effects;
        item->unknown = log.counts_unknown || count > kMaxQueues;
        item->count = item->unknown ? 0 : count;
        memcpy(static_cast<void *>(item->changes), log.changes.items, sizeof(QueueChange) * item->count);
        keep_series(log.series, item);
        // Requests a round, in which the worker recounts the jobs.
        if (item->unknown) item->effects |= kDeadlines;
    }
    LWLockRelease(lock());
}

void settle_prepared() {
    if (shared == nullptr || !OidIsValid(MyDatabaseId)) return;
    publish_what_is_left();
    Prepared copy;
    for (int next = 0; next_here(&next, &copy);) {
        const Fate fate = fate_of(copy);
        if (fate != Fate::Open) tell(copy, fate, &shared->items[next - 1]);
    }
}

SharedUsage prepared_usage() { return {pg_atomic_read_u32(&shared->count), shared->capacity, kNeverEvicts}; }

Size prepared_size() { return add_size(offsetof(PreparedTable, items), mul_size(places(), sizeof(Prepared))); }

void make_prepared(void *memory, bool fresh) {
    shared = static_cast<PreparedTable *>(memory);
    if (!fresh) return;
    pg_atomic_init_u32(&shared->count, 0);
    shared->capacity = places();
}

}  // namespace jobq
