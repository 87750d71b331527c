// See ready_scan.h.
#include "compat/pg.h"

#include "core/key_space.h"
#include "row/ready_scan.h"

extern "C" {
#include "access/relscan.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

using core::ClaimKey;

enum ReadyColumn : AttrNumber { kLane = 1, kPriority, kRunAt, kId };
// The index for queues with round_robin has the same columns, with the round-robin key inserted after the lane.
constexpr AttrNumber kRoundRobinKey = 2;
constexpr int kRoundRobinShift = 1;
// The index of due jobs has only the columns run_at and id, and the index of running jobs has only the column id.
constexpr int kDueShift = 1 - kRunAt;
constexpr AttrNumber kRunningId = 1;
constexpr RegProcedure kComparison[] = {0, 0, F_BTINT2CMP, F_TIMESTAMPTZ_CMP, F_BTINT8CMP};

// Sets up a row comparison for the columns from `first` on, like (run_at, id) >= (...) in SQL. See access/skey.h.
void set_row_key(ScanKeyData *key, ScanKeyData *row, AttrNumber first, const ClaimKey &from, int shift = 0) {
    const Datum values[] = {0, 0, Int16GetDatum(from.priority), TimestampTzGetDatum(from.run_at),
                            Int64GetDatum(from.id)};
    for (AttrNumber column = first; column <= kId; column++)
        ScanKeyEntryInitialize(&row[column - first], column < kId ? SK_ROW_MEMBER : SK_ROW_MEMBER | SK_ROW_END,
                               column + shift, BTGreaterEqualStrategyNumber, InvalidOid, InvalidOid,
                               kComparison[column], values[column]);
    *key = {};
    key->sk_flags = SK_ROW_HEADER;
    key->sk_attno = first + shift;
    key->sk_strategy = BTGreaterEqualStrategyNumber;
    key->sk_argument = PointerGetDatum(row);
}

// Sets the scan keys and returns their number. The server's scan stops at the first entry after its upper bound only if
// all columns before the bounded column are compared for equality.
int set_keys(ReadyScan *ready, Reach reach, int64 lane, const ClaimKey &from, const ClaimKey &to) {
    ScanKeyData *key = ready->keys;
    ScanKeyInit(key++, kLane, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(lane));
    if (reach == Reach::Rest) {
        set_row_key(key++, ready->row, kPriority, from);
        return 2;
    }
    if (reach == Reach::UpToPriority) {
        set_row_key(key++, ready->row, kPriority, from);
        ScanKeyInit(key++, kPriority, BTLessEqualStrategyNumber, F_INT2LE, Int16GetDatum(to.priority));
        return 3;
    }
    ScanKeyInit(key++, kPriority, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(from.priority));
    if (reach == Reach::UpToMoment) {
        set_row_key(key++, ready->row, kRunAt, from);
        ScanKeyInit(key++, kRunAt, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(to.run_at));
        return 4;
    }
    ScanKeyInit(key++, kRunAt, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ, TimestampTzGetDatum(from.run_at));
    ScanKeyInit(key++, kId, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from.id));
    ScanKeyInit(key++, kId, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(to.id));
    return 5;
}

Reach reach_of(const ClaimKey &from, const ClaimKey &to) {
    if (to == core::kLastKey || to < from) return Reach::Rest;
    if (to.priority != from.priority || to.run_at == INT64_MAX) return Reach::UpToPriority;
    return to.run_at == from.run_at ? Reach::WithinMoment : Reach::UpToMoment;
}

// Returns the key up to which a scan reads all entries. This key depends on the scan's reach and on its bound `to`.
ClaimKey end_of(Reach reach, const ClaimKey &to) {
    if (reach == Reach::Rest) return core::kLastKey;
    if (reach == Reach::UpToPriority) return {INT64_MAX, INT64_MAX, to.priority};
    return reach == Reach::UpToMoment ? ClaimKey{to.run_at, INT64_MAX, to.priority} : to;
}

// Returns the key up to which the next scan from `from` toward `expected` reads. A scan can stop only at the end of a
// priority, at the end of a run_at within one priority, or at an id within one run_at. So up to three scans are needed:
// the first ends before the priority of `expected`, the second ends before its run_at, and the third ends at
// `expected`.
ClaimKey next_stop(const ClaimKey &from, const ClaimKey &expected) {
    if (expected == core::kLastKey || expected < from) return core::kLastKey;
    if (from.priority < expected.priority) return {INT64_MAX, INT64_MAX, static_cast<int16>(expected.priority - 1)};
    if (from.run_at < expected.run_at) return {expected.run_at - 1, INT64_MAX, expected.priority};
    return expected;
}

ClaimKey key_of(IndexTuple entry, TupleDesc desc, int shift = 0) {
    bool is_null;
    return {DatumGetTimestampTz(index_getattr(entry, kRunAt + shift, desc, &is_null)),
            DatumGetInt64(index_getattr(entry, kId + shift, desc, &is_null)),
            DatumGetInt16(index_getattr(entry, kPriority + shift, desc, &is_null))};
}

ClaimKey due_key_of(IndexTuple entry, TupleDesc desc) {
    bool is_null;
    return core::due_key(DatumGetTimestampTz(index_getattr(entry, kRunAt + kDueShift, desc, &is_null)),
                         DatumGetInt64(index_getattr(entry, kId + kDueShift, desc, &is_null)));
}

ClaimKey running_key_of(IndexTuple entry, TupleDesc desc) {
    bool is_null;
    return core::running_key(DatumGetInt64(index_getattr(entry, kRunningId, desc, &is_null)));
}

Relation index_of(ReadyScan *ready, Reach reach) {
    const JobIndex which = reach == Reach::Due             ? JobIndex::Due
                           : reach == Reach::Running       ? JobIndex::Running
                           : reach >= Reach::RoundRobinKey ? JobIndex::RoundRobin
                                                           : JobIndex::Ready;
    Relation &index = ready->indexes[static_cast<int>(which)];
    if (index == nullptr) index = open_job_index(which);
    return index;
}

// Begins a scan with the keys that set_keys() has set.
void begin_scan(ReadyScan *ready, const Table &table, Reach reach, int keys) {
    IndexScanDesc &scan = ready->scans[static_cast<int>(reach)];
    if (scan == nullptr) {
        scan = begin_index_scan(table.relation, index_of(ready, reach), table.snapshot, keys);
        // Makes the scan return index tuples, because the key of an entry is read from the index before the row is
        // fetched.
        scan->xs_want_itup = true;
    }
    index_rescan(scan, ready->keys, keys, nullptr, 0);
    ready->current = scan;
}

// Begins a scan of the lane and returns its reach.
Reach begin(ReadyScan *ready, const Table &table, int64 lane, const ClaimKey &from, const ClaimKey &to) {
    const Reach reach = reach_of(from, to);
    begin_scan(ready, table, reach, set_keys(ready, reach, lane, from, to));
    ready->lane = lane;
    return reach;
}

}  // namespace

void close_ready_indexes(ReadyScan *ready) {
    for (Relation index : ready->indexes)
        if (index != nullptr) index_close(index, NoLock);
}

void end_ready_scans(ReadyScan *ready) {
    for (IndexScanDesc &scan : ready->scans) {
        if (scan != nullptr) index_endscan(scan);
        scan = nullptr;
    }
}

void seek_entry(ReadyScan *ready, const Table &table, int64 lane, const ClaimKey &from, const ClaimKey &expected) {
    const ClaimKey stop = next_stop(from, expected);
    ready->continue_after = end_of(begin(ready, table, lane, from, stop), stop);
    ready->then_expected = stop == expected ? core::kLastKey : expected;
}

void seek_entry_range(ReadyScan *ready, const Table &table, int64 lane, const ClaimKey &from, const ClaimKey &to) {
    begin(ready, table, lane, from, to.priority == from.priority ? to : core::kLastKey);
    ready->continue_after = core::kLastKey;
}

void seek_entry_of_round_robin_key(ReadyScan *ready, const Table &table, int64 lane, int64 key, const ClaimKey &from) {
    ScanKeyInit(&ready->keys[0], kLane, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(lane));
    ScanKeyInit(&ready->keys[1], kRoundRobinKey, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(key));
    set_row_key(&ready->keys[2], ready->row, kPriority, from, kRoundRobinShift);
    begin_scan(ready, table, Reach::RoundRobinKey, 3);
    ready->lane = lane;
    ready->continue_after = core::kLastKey;
}

void seek_due_entry(ReadyScan *ready, const Table &table, const ClaimKey &from, const ClaimKey &to) {
    set_row_key(&ready->keys[0], ready->row, kRunAt, from, kDueShift);
    ScanKeyInit(&ready->keys[1], kRunAt + kDueShift, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
                TimestampTzGetDatum(to.run_at));
    begin_scan(ready, table, Reach::Due, 2);
    ready->continue_after = core::kLastKey;
}

void seek_running_entry(ReadyScan *ready, const Table &table, const ClaimKey &from, const ClaimKey &to) {
    ScanKeyInit(&ready->keys[0], kRunningId, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from.id));
    ScanKeyInit(&ready->keys[1], kRunningId, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(to.id));
    begin_scan(ready, table, Reach::Running, 2);
    ready->continue_after = core::kLastKey;
}

bool next_round_robin_key_of(ReadyScan *ready, const Table &table, int64 lane, int64 *key) {
    ScanKeyInit(&ready->keys[0], kLane, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(lane));
    ScanKeyInit(&ready->keys[1], kRoundRobinKey, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(*key));
    begin_scan(ready, table, Reach::AfterRoundRobinKey, 2);
    if (index_getnext_tid(ready->current, ForwardScanDirection) == nullptr) return false;
    bool is_null;
    *key = DatumGetInt64(index_getattr(ready->current->xs_itup, kRoundRobinKey, ready->current->xs_itupdesc, &is_null));
    return true;
}

bool next_entry(ReadyScan *ready, const Table &table, ClaimKey *key) {
    while (index_getnext_tid(ready->current, ForwardScanDirection) == nullptr) {
        if (ready->continue_after == core::kLastKey) return false;
        seek_entry(ready, table, ready->lane, core::next_key(ready->continue_after), ready->then_expected);
    }
    IndexTuple entry = ready->current->xs_itup;
    TupleDesc desc = ready->current->xs_itupdesc;
    const auto reads = [&](Reach reach) { return ready->current == ready->scans[static_cast<int>(reach)]; };
    if (reads(Reach::Due))
        *key = due_key_of(entry, desc);
    else if (reads(Reach::Running))
        *key = running_key_of(entry, desc);
    else
        *key = key_of(entry, desc, reads(Reach::RoundRobinKey) ? kRoundRobinShift : 0);
    return true;
}

bool next_lane_of(ReadyScan *ready, const Table &table, int64 *lane, ClaimKey *first) {
    ScanKeyInit(&ready->keys[0], kLane, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(*lane));
    begin_scan(ready, table, Reach::LaterLanes, 1);
    if (index_getnext_tid(ready->current, ForwardScanDirection) == nullptr) return false;
    bool is_null;
    *lane = DatumGetInt64(index_getattr(ready->current->xs_itup, kLane, ready->current->xs_itupdesc, &is_null));
    *first = key_of(ready->current->xs_itup, ready->current->xs_itupdesc);
    return true;
}

int pass_entries(ReadyScan *ready, int count, ClaimKey *key) {
    const auto reads = [&](Reach reach) { return ready->current == ready->scans[static_cast<int>(reach)]; };
    if (ready->current == nullptr || !(reads(Reach::Rest) || reads(Reach::UpToPriority))) return -1;
    int passed = 0;
    for (; passed < count && index_getnext_tid(ready->current, ForwardScanDirection) != nullptr; passed++)
        *key = key_of(ready->current->xs_itup, ready->current->xs_itupdesc);
    return passed;
}

}  // namespace jobq
