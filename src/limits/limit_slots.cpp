// See limit_slots.h.
//
// Two scans are needed to determine whether a slot is free.
//  - The first scan uses SnapshotDirty, so it also finds claims that have not committed. It can miss a job that gets a
//    new row version during the scan, for example because of a heartbeat, because it reads the index and the table at
//    different times: it can reach the old version after the change and look for the new version before the change.
//  - The second scan uses an MVCC snapshot taken after the first scan. It finds every job whose claim has committed,
//    whichever row version is current. The first scan cannot have missed a job whose claim has not committed, because
//    the job's index entry was made before this session locked the slot, and the job's row gets no new version before
//    the claim's transaction ends.
//
// For a named limit, each of the two scans reads two indexes. A job never moves a slot from one of the two columns to
// the other within a transaction, so each scan finds the job as described.
//
// Both scans bypass SQL, even where jobq otherwise uses SQL to access rows, because SQL cannot see uncommitted rows.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/own_locks.h"
#include "compat/spi.h"
#include "leases/young_leases.h"
#include "limits/limit_slots.h"
#include "limits/limit_state.h"
#include "row/numbers.h"

#include <algorithm>

extern "C" {
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

constexpr AttrNumber kSlot = 1, kSeq = 2;

// Counts the running jobs that find_unslotted in limits/limit_settings.cpp would select. If you change the conditions
// here, also change them there.
#define RUNNING_IN_QUEUE                                                                     \
    "SELECT count(*) FROM jobq.jobs j "                                                      \
    "WHERE j.id = ANY ($1 || ARRAY (SELECT w.id FROM jobq.jobs w WHERE w._rescue_indexed)) " \
    "AND j.status = 'processing' AND j.queue = $2 "
Statement without_slot[] = {
    {RUNNING_IN_QUEUE "AND $3 = '' AND j._queue_slot IS NULL", {INT8ARRAYOID, TEXTOID, TEXTOID}},
    {RUNNING_IN_QUEUE
     "AND j._key_slot IS NULL AND (j.concurrency_key = $3 OR $3 = '*' AND j.concurrency_key IS NOT NULL "
     "AND NOT EXISTS (SELECT FROM jobq.limit_settings l "
     "WHERE l.queue = $2 AND l.key = j.concurrency_key AND NOT l.by_kind))",
     {INT8ARRAYOID, TEXTOID, TEXTOID}},
    {RUNNING_IN_QUEUE
     "AND j._kind_slot IS NULL AND (j.kind = $3 OR $3 = '*' "
     "AND NOT EXISTS (SELECT FROM jobq.limit_settings l WHERE l.queue = $2 AND l.key = j.kind AND l.by_kind))",
     {INT8ARRAYOID, TEXTOID, TEXTOID}}};
// Counts the running jobs that count toward the named limit $2, and hold no slot between $3 and $4.
Statement without_named_slot = {
    "SELECT count(*) FROM jobq.jobs j "
    "WHERE j.id = ANY ($1 || ARRAY (SELECT w.id FROM jobq.jobs w WHERE w._rescue_indexed)) "
    "AND j.status = 'processing' AND $2 = ANY (j.limits) "
    "AND j.queue IN (SELECT unnest(l.queues) FROM jobq.named_limit_settings l WHERE l.name = $2) "
    "AND coalesce(j._limit_slot1 NOT BETWEEN $3 AND $4, true) AND coalesce(j._limit_slot2 NOT BETWEEN $3 AND $4, true)",
    {INT8ARRAYOID, TEXTOID, INT8OID, INT8OID}};
constexpr JobIndex kSlotIndexes[kSlotsOf] = {JobIndex::QueueSlot, JobIndex::KeySlot, JobIndex::KindSlot,
                                             JobIndex::LimitSlot1, JobIndex::LimitSlot2};

// Returns the index, or nullptr if the index cannot be used (table/attached.h). If it cannot be used, scan() reads the
// table.
Relation index_of(Slots *slots, SlotOf of) {
    Relation *index = &slots->indexes[static_cast<int>(of)];
    if (*index == nullptr) *index = open_job_index_if_good(kSlotIndexes[static_cast<int>(of)]);
    return *index;
}

// Calls body() for each row that the snapshot sees.
template <typename Body>
void scan(Slots *slots, SlotOf of, Snapshot snapshot, ScanKeyData *keys, int count, Body body) {
    Relation table = slots->jobs->table.relation;
    if (slots->found == nullptr) slots->found = table_slot_create(table, nullptr);
    if (Relation index = index_of(slots, of)) {
        IndexScanDesc scan = begin_index_scan(table, index, snapshot, count);
        index_rescan(scan, keys, count, nullptr, 0);
        while (index_getnext_slot(scan, ForwardScanDirection, slots->found)) {
            CHECK_FOR_INTERRUPTS();
            if (!body()) break;
        }
        index_endscan(scan);
    } else {
        for (int i = 0; i < count; i++)
            keys[i].sk_attno = keys[i].sk_attno == kSlot ? AttrNumber(column_of_slot(of)) : AttrNumber(kJobSlotSeq);
        TableScanDesc scan = begin_table_scan(table, snapshot, count, keys);
        while (table_scan_getnextslot(scan, ForwardScanDirection, slots->found)) {
            CHECK_FOR_INTERRUPTS();
            if (!body()) break;
        }
        table_endscan(scan);
    }
    ExecClearTuple(slots->found);
}

// Calls body(of) for each column that can contain a slot of this limit.
template <typename Body>
void each_column(SlotOf of, Body body) {
    body(is_named(of) ? SlotOf::Named1 : of);
    if (is_named(of)) body(SlotOf::Named2);
}

bool any_holder(Slots *slots, SlotOf of, Snapshot snapshot, int64 slot) {
    bool any = false;
    each_column(of, [&](SlotOf column) {
        if (any) return;
        ScanKeyData keys[2];
        ScanKeyInit(&keys[0], kSlot, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(slot));
        ScanKeyInit(&keys[1], kSeq, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(slot_bound(slot)));
        scan(slots, column, snapshot, keys, 2, [&] {
            any = true;
            return false;
        });
    });
    return any;
}

bool is_free(Slots *slots, SlotOf of, int64 slot) {
    if (seems_held(slots, of, slot)) return false;
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    const bool held = any_holder(slots, of, latest, slot);
    UnregisterSnapshot(latest);
    return !held;
}

void add_numbers(Slots *slots, SlotOf of, Snapshot snapshot, int64 limit, Notes<int32> *numbers) {
    each_column(of, [&](SlotOf column) {
        ScanKeyData keys[2];
        ScanKeyInit(&keys[0], kSlot, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(limit));
        ScanKeyInit(&keys[1], kSlot, BTLessStrategyNumber, F_INT8LT,
                    Int64GetDatum(core::slot_of(limit, core::kHighestNumber + 1)));
        scan(slots, column, snapshot, keys, 2, [&] {
            bool is_null;
            const Datum slot = slot_getattr(slots->found, column_of_slot(column), &is_null);
            if (!is_null) numbers->add(core::number_of_slot(DatumGetInt64(slot)));
            return true;
        });
    });
}

}  // namespace

void close_slots(Slots *slots) {
    for (Relation index : slots->indexes)
        if (index != nullptr) index_close(index, NoLock);
    if (slots->found != nullptr) ExecDropSingleTupleTableSlot(slots->found);
    *slots = {slots->jobs, {}, nullptr};
}

bool seems_held(Slots *slots, SlotOf of, int64 slot) {
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    return any_holder(slots, of, &dirty, slot);
}

bool lock_free_slot(Slots *slots, SlotOf of, std::string_view queue, std::string_view key, int64 slot,
                    TimestampTz now) {
    const LOCKTAG tag = own_lock(OwnLock::Slot, slot);
    const LockAcquireResult locked = LockAcquire(&tag, ExclusiveLock, false, true);
    if (locked == LOCKACQUIRE_OK && is_free(slots, of, slot)) {
        slot_taken(queue, key, slot, next_slot_seq(slot, now));
        return true;
    }
    // If this session already held the lock, this claim runs in a trigger that was fired by another claim in the same
    // session, and that other claim is taking the slot.
    if (locked != LOCKACQUIRE_NOT_AVAIL) LockRelease(&tag, ExclusiveLock, false);
    return false;
}

void unlock_slot(int64 slot) {
    const LOCKTAG tag = own_lock(OwnLock::Slot, slot);
    LockRelease(&tag, ExclusiveLock, false);
}

Notes<int32> held_numbers(Slots *slots, SlotOf of, int64 limit) {
    Notes<int32> numbers = {};
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    add_numbers(slots, of, &dirty, limit, &numbers);
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    add_numbers(slots, of, latest, limit, &numbers);
    UnregisterSnapshot(latest);
    std::sort(numbers.items, numbers.items + numbers.count);
    numbers.count = static_cast<int>(std::unique(numbers.items, numbers.items + numbers.count) - numbers.items);
    return numbers;
}

int64 running_without_slot(SlotOf of, std::string_view queue, std::string_view name) {
    // Reads the list of jobs that are not rescue-indexed yet before taking the snapshot, so that each running job is in
    // the list or is rescue-indexed under the snapshot.
    Params params = Params().add(unindexed_jobs());
    if (is_named(of)) {
        const int64 id = named_limit_id(name);
        params.add(PointerGetDatum(make_text(name)))
            .add(Int64GetDatum(id))
            .add(Int64GetDatum(core::slot_of(id, core::kHighestNumber)));
    } else {
        params.add(PointerGetDatum(make_text(queue))).add(PointerGetDatum(make_text(name)));
    }
    Statement &count_of = is_named(of) ? without_named_slot : without_slot[static_cast<int>(of)];
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    const int64 count = read(count_of, params, latest)[0].int64_at(1);
    UnregisterSnapshot(latest);
    return count;
}

}  // namespace jobq
