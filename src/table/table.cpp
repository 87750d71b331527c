// See table.h.
#include "compat/pg.h"

#include "compat/rights.h"
#include "table/early_toast.h"
#include "table/table.h"
#include "table/table_sql.h"

extern "C" {
#include "access/heapam.h"
#include "catalog/index.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/datum.h"
}

namespace jobq {

namespace {

EState *executor_of(Table *table) {
    if (table->executor == nullptr) table->executor = CreateExecutorState();
    return table->executor;
}

// Returns the opened index, or nullptr if the index does not accept entries yet.
Relation open_index(Table *table, int i) {
    if (table->index_infos[i] == nullptr) {
        table->indexes[i] = index_open(table->index_plan.indexes[i].index, RowExclusiveLock);
        table->index_infos[i] = BuildIndexInfo(table->indexes[i]);
    }
    return table->indexes[i]->rd_index->indisready ? table->indexes[i] : nullptr;
}

bool satisfies_predicate(Table *table, TupleTableSlot *row, IndexInfo *info) {
    EState *executor = executor_of(table);
    ExprContext *context = GetPerTupleExprContext(executor);
    context->ecxt_scantuple = row;
    if (info->ii_PredicateState == nullptr) info->ii_PredicateState = ExecPrepareQual(info->ii_Predicate, executor);
    return ExecQual(info->ii_PredicateState, context);
}

// Returns whether all key columns of the index are unchanged, which means that the new entry differs from the old entry
// only in its row pointer. The result is a hint for the index: if it is true, the index tries to remove entries of old
// row versions.
bool keeps_key(const IndexInfo *info, const AttrNumber *columns, int column_count) {
    for (int k = 0; k < info->ii_NumIndexKeyAttrs; k++) {
        if (info->ii_IndexAttrNumbers[k] == 0) return false;
        for (int c = 0; c < column_count; c++)
            if (columns[c] == info->ii_IndexAttrNumbers[k]) return false;
    }
    return true;
}

// Returns whether to check uniqueness for a new entry. The check is skipped if the previous version of the row had the
// same key, because a session that inserts the same key finds the entry of the previous version and waits for this
// transaction. The check is not skipped if the index is partial or under construction, because it might then have no
// entry for the previous version.
IndexUniqueCheck unique_check(Relation index, const IndexInfo *info, bool same_key) {
    if (!index->rd_index->indisunique) return UNIQUE_CHECK_NO;
    return same_key && index->rd_index->indisvalid && info->ii_Predicate == NIL ? UNIQUE_CHECK_NO : UNIQUE_CHECK_YES;
}

// Inserts an entry into each index whose predicate the row satisfies. `columns` are the columns in which the row
// differs from its previous version; for a new row, `column_count` is 0.
void insert_index_entries(Table *table, TupleTableSlot *row, IndexUpdate update, const AttrNumber *columns,
                          int column_count) {
    if (table->index_infos == nullptr) {
        table->index_plan = index_plan_of(table->relation);
        const Size room = static_cast<Size>(Max(table->index_plan.count, 1));
        table->indexes = static_cast<Relation *>(palloc0(sizeof(Relation) * room));
        table->index_infos = static_cast<IndexInfo **>(palloc0(sizeof(IndexInfo *) * room));
    }
    if (table->executor != nullptr) ResetPerTupleExprContext(table->executor);
    // Extracts all column values at once, which is cheaper than one call per column.
    slot_getallattrs(row);
    for (int i = 0; i < table->index_plan.count; i++) {
        const PlannedIndex &planned = table->index_plan.indexes[i];
        if (!may_belong(planned, row)) continue;
        Relation index = open_index(table, i);
        if (index == nullptr || !wants_entry(update, index)) continue;
        IndexInfo *info = table->index_infos[i];
        if (planned.asks_predicate && !satisfies_predicate(table, row, info)) continue;
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        if (info->ii_Expressions != NIL) GetPerTupleExprContext(executor_of(table))->ecxt_scantuple = row;
        FormIndexDatum(info, row, table->executor, values, nulls);
        const bool same_key = column_count > 0 && keeps_key(info, columns, column_count);
        index_insert(index, values, nulls, &row->tts_tid, table->relation, unique_check(index, info, same_key),
                     same_key, info);
    }
}

// Raises the serialization error that the server would raise.
[[noreturn]] void changed_since_snapshot(bool deleted) {
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                    deleted ? errmsg("could not serialize access due to concurrent delete")
                            : errmsg("could not serialize access due to concurrent update")));
    pg_unreachable();
}

void prepare_defaults(Table *table) {
    TupleDesc desc = RelationGetDescr(table->relation);
    table->defaults = static_cast<ColumnDefault *>(palloc(sizeof(ColumnDefault) * desc->natts));
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute column = TupleDescAttr(desc, i);
        Node *value = default_counts(table->attached, column) ? default_of(table->relation, column) : nullptr;
        if (value == nullptr) continue;
        table->defaults[table->default_count++] = {
            column->attnum, ExecPrepareExpr(reinterpret_cast<Expr *>(value), executor_of(table))};
    }
}

TM_Result lock_row_directly(Table *table) {
    TM_FailureData failure;
    ItemPointerData tid = table->row->tts_tid;
    return table_tuple_lock(table->relation, &tid, table->snapshot, table->row, GetCurrentCommandId(true),
                            LockTupleNoKeyExclusive, LockWaitSkip, 0, &failure);
}

// Evaluates the result of an attempt to lock or change a row. Returns true if the attempt succeeded, and false if
// another transaction holds the row or has changed it since the snapshot was taken.
bool obtained(TM_Result result) {
    switch (result) {
        case TM_Ok:
            return true;
        case TM_Updated:
        case TM_Deleted:
            if (IsolationUsesXactSnapshot()) changed_since_snapshot(result == TM_Deleted);
            return false;
        case TM_WouldBlock:
            return false;
        default:
            // TM_SelfModified: a user's function has changed the row during the current command. The server raises the
            // same error for an SQL statement.
            row_was_changed_twice();
    }
    pg_unreachable();
}

bool update_directly(Table *table, const AttrNumber *columns, int column_count, LockWaitPolicy wait) {
    // With assertions enabled, the server does not allow a no-wait update of a row that a transaction holds, even if
    // this is the current transaction. Therefore, such a row is locked first. The assertion can still fail if another
    // transaction locks the row after the following check.
    if (wait == LockWaitSkip && TransactionIdIsValid(holder_of_row(*table)))
        return lock_row_or_skip(table) && update_directly(table, columns, column_count, LockWaitBlock);
    TM_FailureData failure;
    LockTupleMode lock_mode;
    IndexUpdate indexes;
    const TM_Result result = update_tuple(table->relation, &table->row->tts_tid, table->changed, table->snapshot,
                                          wait == LockWaitBlock, &failure, &lock_mode, &indexes);
    // Locks the row first, because another transaction has locked it since the check above.
    if (result == TM_BeingModified)
        return lock_row_or_skip(table) && update_directly(table, columns, column_count, LockWaitBlock);
    if (!obtained(result)) return false;
    if (wants_entries(indexes)) insert_index_entries(table, table->changed, indexes, columns, column_count);
    return true;
}

bool delete_directly(Table *table) {
    TM_FailureData failure;
    return obtained(delete_tuple(table->relation, &table->row->tts_tid, table->snapshot, &failure));
}

// Returns the inserted row with its original value in place of the TOAST pointer. The index entries are made from the
// returned row.
TupleTableSlot *as_it_was(Table *table, TupleTableSlot *inserted, const EarlyToast &early) {
    if (early.column < 0) return inserted;
    TupleTableSlot *row = table->changed;
    slot_getallattrs(inserted);
    ExecClearTuple(row);
    const int columns = row->tts_tupleDescriptor->natts;
    memcpy(row->tts_values, inserted->tts_values, sizeof(Datum) * columns);
    memcpy(row->tts_isnull, inserted->tts_isnull, sizeof(bool) * columns);
    row->tts_values[early.column] = early.value;
    ExecStoreVirtualTuple(row);
    row->tts_tid = inserted->tts_tid;
    row->tts_tableOid = inserted->tts_tableOid;
    return row;
}

void insert_directly(Table *table, int count) {
    EarlyToast early[kMaxAdded];
    for (int i = 0; i < count; i++) early[i] = toast_early(table->relation, table->added[i]);
    table_multi_insert(table->relation, table->added, count, GetCurrentCommandId(true), 0, nullptr);
    for (int i = 0; i < count; i++)
        insert_index_entries(table, as_it_was(table, table->added[i], early[i]), kAllIndexes, nullptr, 0);
}

bool is_heap(Relation relation) { return relation->rd_tableam == GetHeapamTableAmRoutine(); }

HeapTupleHeaderData header_in(TupleTableSlot *row) {
    bool copied = false;
    HeapTuple tuple = ExecFetchSlotHeapTuple(row, false, &copied);
    // Locks the buffer while copying the header, because other sessions change fields of the header under this lock.
    const Buffer buffer = reinterpret_cast<BufferHeapTupleTableSlot *>(row)->buffer;
    HeapTupleHeaderData header;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    memcpy(&header, tuple->t_data, SizeofHeapTupleHeader);
    LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
    return header;
}

// Reads the current header of table.row. With SQL access, the slot contains only a copy of the row without its header.
bool header_of_row(const Table &table, HeapTupleHeaderData *header) {
    if (table.by_sql)
        return read_row_header(RelationGetRelid(table.relation), table.row->tts_tid, table.snapshot, header);
    *header = header_in(table.row);
    return true;
}

}  // namespace

TupleTableSlot *make_row(Relation relation, bool by_sql) {
    return by_sql ? MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsVirtual)
                  : table_slot_create(relation, nullptr);
}

Table open_table(Relation relation, AttrNumber key, const Attached &attached, bool by_sql) {
    Table table = {};
    table.relation = relation;
    table.key = key;
    table.attached = attached;
    table.by_sql = by_sql;
    // Makes earlier changes by this transaction visible, including changes by the calling statement.
    CommandCounterIncrement();
    table.row = make_row(relation, by_sql);
    table.changed = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsVirtual);
    CheckCmdReplicaIdentity(relation, CMD_UPDATE);
    return table;
}

void take_snapshot(Table *table) {
    if (table->snapshot != nullptr) PopActiveSnapshot();
    PushActiveSnapshot(GetTransactionSnapshot());
    table->snapshot = GetActiveSnapshot();
}

void close_table(Table *table) {
    if (table->executor != nullptr) FreeExecutorState(table->executor);
    for (int i = 0; i < table->index_plan.count; i++) {
        if (table->indexes[i] == nullptr) continue;
        end_index_inserts(table->indexes[i], table->index_infos[i]);
        index_close(table->indexes[i], NoLock);
    }
    for (int i = 0; table->added != nullptr && i < kMaxAdded && table->added[i] != nullptr; i++)
        ExecDropSingleTupleTableSlot(table->added[i]);
    ExecDropSingleTupleTableSlot(table->changed);
    ExecDropSingleTupleTableSlot(table->row);
    if (table->snapshot != nullptr) PopActiveSnapshot();
    table_close(table->relation, NoLock);
    CommandCounterIncrement();
}

void begin_change(Table *table) {
    slot_getallattrs(table->row);
    ExecClearTuple(table->changed);
    const int columns = RelationGetDescr(table->relation)->natts;
    memcpy(table->changed->tts_values, table->row->tts_values, sizeof(Datum) * columns);
    memcpy(table->changed->tts_isnull, table->row->tts_isnull, sizeof(bool) * columns);
    ExecStoreVirtualTuple(table->changed);
}

bool read_row_header(Oid relation, ItemPointerData place, Snapshot snapshot, HeapTupleHeaderData *header) {
    Relation table = table_open(relation, AccessShareLock);
    bool there = is_heap(table);
    if (there) {
        TupleTableSlot *row = table_slot_create(table, nullptr);
        there = table_tuple_fetch_row_version(table, &place, snapshot, row);
        if (there) *header = header_in(row);
        ExecDropSingleTupleTableSlot(row);
    }
    table_close(table, NoLock);
    return there;
}

TransactionId holder_of_row(const Table &table) {
    HeapTupleHeaderData header;
    if (!header_of_row(table, &header) || (header.t_infomask & HEAP_XMAX_INVALID) != 0) return InvalidTransactionId;
    return HeapTupleHeaderGetRawXmax(&header);
}

bool row_is_held(const Table &table) {
    HeapTupleHeaderData header;
    if (!header_of_row(table, &header) || (header.t_infomask & HEAP_XMAX_INVALID) != 0 || keeps_keys_only(header))
        return false;
    return TransactionIdIsInProgress(HeapTupleHeaderGetRawXmax(&header));
}

Changing change_of_row(const Table &table) {
    HeapTupleHeaderData copy;
    HeapTupleHeader header = &copy;
    if (!header_of_row(table, header)) return Changing::Unknown;
    if ((header->t_infomask & HEAP_XMAX_INVALID) != 0 || HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
        return Changing::No;
    const TransactionId changer = HeapTupleHeaderGetUpdateXid(header);
    if (TransactionIdIsCurrentTransactionId(changer)) return Changing::No;
    // If the transaction has committed, it committed after the snapshot was taken, because the snapshot still sees this
    // version. TransactionIdIsInProgress() must be called first, because the transaction might commit between the two
    // calls.
    return TransactionIdIsInProgress(changer) || TransactionIdDidCommit(changer) ? Changing::Yes : Changing::No;
}

bool lock_row_or_skip(Table *table) {
    if (table->by_sql) return lock_by_sql(table, LockWaitSkip);
    const TM_Result result = lock_row_directly(table);
    // Treats a deletion like an update, because lock_by_sql() does not distinguish them either.
    return obtained(result == TM_Deleted ? TM_Updated : result);
}

bool reach_row_or_skip(Table *table) {
    const bool is_free = !table->by_sql && !TransactionIdIsValid(holder_of_row(*table));
    return is_free || lock_row_or_skip(table);
}

void change_was_suppressed(const Table &table) {
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                    errmsg("a trigger on table \"jobq.%s\" suppressed a change that jobq made",
                           RelationGetRelationName(table.relation)),
                    errhint("Make sure that no BEFORE trigger on this table returns NULL.")));
    pg_unreachable();
}

void row_was_changed_twice() {
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION), errmsg("a job was changed twice by one command"),
                    errhint("Make sure that no trigger on jobq.jobs changes the job.")));
    pg_unreachable();
}

void key_was_changed(int64 key) {
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                    errmsg("a trigger changed the id of a job to %lld", static_cast<long long>(key)),
                    errhint("Make sure that no BEFORE UPDATE trigger on jobq.jobs changes the id of a job.")));
    pg_unreachable();
}

bool update_row(Table *table, const AttrNumber *columns, int column_count, LockWaitPolicy wait) {
    return table->by_sql ? update_by_sql(table, columns, column_count)
                         : update_directly(table, columns, column_count, wait);
}

bool can_delete_rows(const Table &table) {
    CheckCmdReplicaIdentity(table.relation, CMD_DELETE);
    return !table.attached.sees_ends;
}

bool delete_row(Table *table) { return table->by_sql ? delete_by_sql(table) : delete_directly(table); }

TupleTableSlot *add_row(Table *table) {
    if (table->added == nullptr)
        table->added = static_cast<TupleTableSlot **>(palloc0(sizeof(TupleTableSlot *) * kMaxAdded));
    TupleTableSlot **added = &table->added[table->added_count++];
    if (*added == nullptr) *added = make_row(table->relation, table->by_sql);
    ExecStoreAllNullTuple(*added);
    return *added;
}

Datum column_default(Table *table, AttrNumber column, bool *is_null) {
    Datum value = Datum(0);
    *is_null = true;
    as_role(table->relation->rd_rel->relowner, [&] {
        if (table->defaults == nullptr) prepare_defaults(table);
        for (int d = 0; d < table->default_count; d++) {
            if (table->defaults[d].column != column) continue;
            value = ExecEvalExpr(table->defaults[d].value, GetPerTupleExprContext(executor_of(table)), is_null);
            const FormData_pg_attribute *type = TupleDescAttr(RelationGetDescr(table->relation), column - 1);
            if (!*is_null) value = datumCopy(value, type->attbyval, type->attlen);
        }
    });
    return value;
}

bool is_seen_at_insert(const Table &table) {
    return table.attached.reason != nullptr || index_plan_of(table.relation).evaluates;
}

void insert_rows(Table *table) {
    const int count = table->added_count;
    table->added_count = 0;
    require_known_defaults(table->relation, table->attached);
    if (table->by_sql)
        insert_by_sql(table, count);
    else
        insert_directly(table, count);
}

Relation open_whole_index(Oid index) {
    if (!OidIsValid(index)) return nullptr;
    Relation opened = index_open(index, AccessShareLock);
    if (opened->rd_index->indisvalid) return opened;
    index_close(opened, NoLock);
    return nullptr;
}

}  // namespace jobq
