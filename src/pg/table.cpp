// See table.h.
#include "pg/pg.h"

#include "pg/early_toast.h"
#include "pg/followers.h"
#include "pg/rights.h"
#include "pg/spi.h"
#include "pg/table.h"

extern "C" {
#include "access/heapam.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "nodes/execnodes.h"
#include "nodes/makefuncs.h"
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

// nullptr: it takes no entries.
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

// Whether the entry differs from the old version's only in where it points, if that had one: it is worth looking for
// versions that can go.
bool keeps_key(const IndexInfo *info, const AttrNumber *columns, int column_count) {
    for (int k = 0; k < info->ii_NumIndexKeyAttrs; k++) {
        if (info->ii_IndexAttrNumbers[k] == 0) return false;
        for (int c = 0; c < column_count; c++)
            if (columns[c] == info->ii_IndexAttrNumbers[k]) return false;
    }
    return true;
}

// A key that the version before had, too, is unique already: whoever wants to insert it finds that version, and waits
// for us. Not if the index need not hold that version, being partial or still under construction.
IndexUniqueCheck unique_check(Relation index, const IndexInfo *info, bool same_key) {
    if (!index->rd_index->indisunique) return UNIQUE_CHECK_NO;
    return same_key && index->rd_index->indisvalid && info->ii_Predicate == NIL ? UNIQUE_CHECK_NO : UNIQUE_CHECK_YES;
}

// One entry in each index whose predicate the row satisfies. `columns` are those that have changed since the version
// before, if there is one.
void insert_index_entries(Table *table, TupleTableSlot *row, IndexUpdate update, const AttrNumber *columns,
                          int column_count) {
    if (table->index_infos == nullptr) {
        table->index_plan = index_plan_of(table->relation);
        const Size room = static_cast<Size>(Max(table->index_plan.count, 1));
        table->indexes = static_cast<Relation *>(palloc0(sizeof(Relation) * room));
        table->index_infos = static_cast<IndexInfo **>(palloc0(sizeof(IndexInfo *) * room));
    }
    if (table->executor != nullptr) ResetPerTupleExprContext(table->executor);
    for (int i = 0; i < table->index_plan.count; i++) {
        const PlannedIndex &planned = table->index_plan.indexes[i];
        if (!may_belong(planned, row)) continue;
        Relation index = open_index(table, i);
        if (index == nullptr || !wants_entry(update, index)) continue;
        IndexInfo *info = table->index_infos[i];
        if (planned.rows == IndexedRows::AskPredicate && !satisfies_predicate(table, row, info)) continue;
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        if (info->ii_Expressions != NIL) GetPerTupleExprContext(executor_of(table))->ecxt_scantuple = row;
        FormIndexDatum(info, row, table->executor, values, nulls);
        const bool same_key = column_count > 0 && keeps_key(info, columns, column_count);
        index_insert(index, values, nulls, &row->tts_tid, table->relation, unique_check(index, info, same_key),
                     same_key, info);
    }
}

[[noreturn]] void changed_since_snapshot() {
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                    errmsg("could not serialize access due to concurrent update")));
    pg_unreachable();
}

// The result entry for the executor: which columns change decides about triggers FOR UPDATE OF.
ResultRelInfo *result_relation(Table *table, EState *executor, const AttrNumber *columns, int column_count) {
    Bitmapset *changed = nullptr;
    for (int i = 0; i < column_count; i++)
        changed = bms_add_member(changed, columns[i] - FirstLowInvalidHeapAttributeNumber);
    RangeTblEntry *entry = makeNode(RangeTblEntry);
    entry->rtekind = RTE_RELATION;
    entry->relid = RelationGetRelid(table->relation);
    entry->relkind = table->relation->rd_rel->relkind;
    entry->rellockmode = RowExclusiveLock;
    init_range_table(executor, entry, changed);
    ResultRelInfo *result = makeNode(ResultRelInfo);
    InitResultRelInfo(result, table->relation, 1, nullptr, 0);
    // Triggers use it instead of opening the table again. Nobody closes it: the reference is ours.
    executor->es_opened_result_relations = lappend(executor->es_opened_result_relations, result);
    return result;
}

[[noreturn]] void suppressed(const Table &table) {
    ereport(ERROR,
            (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
             errmsg("a trigger on table \"%s\" suppressed a change of jobq's", RelationGetRelationName(table.relation)),
             errhint("A BEFORE trigger on it must not return NULL.")));
    pg_unreachable();
}

// Generated columns are computed, CHECK and NOT NULL looked at.
void check_constraints(ResultRelInfo *result, EState *executor, TupleTableSlot *row, CmdType change) {
    const TupleConstr *constraints = RelationGetDescr(result->ri_RelationDesc)->constr;
    if (constraints == nullptr) return;
    if (constraints->has_generated_stored) ExecComputeStoredGenerated(result, executor, row, change);
    ExecConstraints(result, row, executor);
}

// What a trigger's transition tables shall hold; nullptr: no trigger has any.
TransitionCaptureState *captured_by(const Table &table, CmdType change) {
    return MakeTransitionCaptureState(table.relation->trigdesc, RelationGetRelid(table.relation), change);
}

// What the executor's own ExecSimpleRelationInsert does, which knows no transition tables. Leaves the row without
// a place when a trigger suppresses it.
void insert_as_executor(const Table &table, TupleTableSlot *row, ResultRelInfo *result, EState *executor) {
    TransitionCaptureState *captured = captured_by(table, CMD_INSERT);
    const TriggerDesc *triggers = result->ri_TrigDesc;
    if (triggers != nullptr && triggers->trig_insert_before_row && !ExecBRInsertTriggers(executor, result, row)) return;
    check_constraints(result, executor, row, CMD_INSERT);
    simple_table_tuple_insert(table.relation, row);
    ExecARInsertTriggers(executor, result, row, insert_all_entries(result, executor, row), captured);
}

// The same for ExecSimpleRelationUpdate: writes table.changed over table.row.
void update_as_executor(const Table &table, ResultRelInfo *result, EState *executor, EPQState *recheck) {
    TransitionCaptureState *captured = captured_by(table, CMD_UPDATE);
    const TriggerDesc *triggers = result->ri_TrigDesc;
    ItemPointerData before = table.row->tts_tid;
    if (triggers != nullptr && triggers->trig_update_before_row &&
        !fire_before_update(executor, recheck, result, &before, table.changed))
        return;
    check_constraints(result, executor, table.changed, CMD_UPDATE);
    IndexUpdate indexes;
    simple_table_tuple_update(table.relation, &before, table.changed, executor->es_snapshot, &indexes);
    List *again = insert_changed_entries(result, executor, table.changed, indexes);
    ExecARUpdateTriggers(executor, result, nullptr, nullptr, &before, nullptr, table.changed, again, captured, false);
}

// The executor's way, with the table owner's rights: row triggers, constraints, any kind of index.
// change(result, executor, recheck) does it to one row, whose place in the table is then that of `row`.
template <typename Change>
void by_executor(Table *table, TupleTableSlot *row, const AttrNumber *columns, int column_count, Change change) {
    EState *executor = CreateExecutorState();
    executor->es_output_cid = GetCurrentCommandId(true);
    executor->es_snapshot = table->snapshot;
    ResultRelInfo *result = result_relation(table, executor, columns, column_count);
    EPQState recheck;
    init_no_recheck(&recheck, executor);
    ExecOpenIndices(result, false);
    AfterTriggerBeginQuery();
    ItemPointerSetInvalid(&row->tts_tid);
    as_role(table->relation->rd_rel->relowner, [&] {
        as_own_query(executor->es_query_cxt, [&] {
            change(result, executor, &recheck);
            AfterTriggerEndQuery(executor);
        });
    });
    if (!ItemPointerIsValid(&row->tts_tid)) suppressed(*table);
    // The indices, and the tables of triggers that the change has brought about elsewhere.
    ExecCloseResultRelations(executor);
    EvalPlanQualEnd(&recheck);
    ExecResetTupleTable(executor->es_tupleTable, false);
    FreeExecutorState(executor);
}

int64 key_in(const Table &table, TupleTableSlot *row) {
    bool is_null;
    return DatumGetInt64(slot_getattr(row, table.key, &is_null));
}

void update_by_executor(Table *table, const AttrNumber *columns, int column_count) {
    by_executor(table, table->changed, columns, column_count,
                [&](ResultRelInfo *result, EState *executor, EPQState *recheck) {
                    update_as_executor(*table, result, executor, recheck);
                });
    const int64 key = key_in(*table, table->changed);
    if (key != key_in(*table, table->row)) key_was_changed(key);
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

// With the rights of the table's owner, as everything that is attached to it. Not reset in between: the values are
// needed until the rows are inserted.
void fill_defaults(Table *table, int count) {
    as_role(table->relation->rd_rel->relowner, [&] {
        if (table->defaults == nullptr) prepare_defaults(table);
        ExprContext *context = GetPerTupleExprContext(executor_of(table));
        for (int i = 0; i < count; i++) {
            TupleTableSlot *row = table->added[i];
            for (int d = 0; d < table->default_count; d++) {
                const int at = table->defaults[d].column - 1;
                if (!row->tts_isnull[at]) continue;
                row->tts_values[at] = ExecEvalExpr(table->defaults[d].value, context, &row->tts_isnull[at]);
            }
        }
    });
}

TM_Result lock_row(Table *table, LockWaitPolicy wait) {
    TM_FailureData failure;
    ItemPointerData tid = table->row->tts_tid;
    return table_tuple_lock(table->relation, &tid, table->snapshot, table->row, GetCurrentCommandId(true),
                            LockTupleNoKeyExclusive, wait, 0, &failure);
}

// Whether the row is ours; false: somebody has changed it since the snapshot, or holds it.
bool obtained(TM_Result result) {
    switch (result) {
        case TM_Ok:
            return true;
        case TM_Updated:
        case TM_Deleted:
            if (IsolationUsesXactSnapshot()) changed_since_snapshot();
            return false;
        case TM_WouldBlock:
            return false;
        default:
            // Our own command has changed it already: somebody's trigger, on the way.
            ereport(ERROR,
                    (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION), errmsg("a job was changed twice by one command"),
                     errhint("Is there a trigger on jobq.jobs that changes it?")));
    }
    pg_unreachable();
}

bool update_directly(Table *table, const AttrNumber *columns, int column_count) {
    TM_FailureData failure;
    LockTupleMode lock_mode;
    IndexUpdate indexes;
    const TM_Result result =
        table_tuple_update(table->relation, &table->row->tts_tid, table->changed, GetCurrentCommandId(true),
                           table->snapshot, InvalidSnapshot, true, &failure, &lock_mode, &indexes);
    if (!obtained(result)) return false;
    if (wants_entries(indexes)) insert_index_entries(table, table->changed, indexes, columns, column_count);
    return true;
}

// The row that has been inserted, with the value that has left it: what indexes are made of.
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

}  // namespace

Table open_table(Oid relation, AttrNumber key) {
    Table table = {};
    table.key = key;
    // What this transaction's earlier commands, and the statement that calls us, have changed must be visible.
    CommandCounterIncrement();
    table.relation = table_open(relation, RowExclusiveLock);
    table.row = table_slot_create(table.relation, nullptr);
    table.changed = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsVirtual);
    CheckCmdReplicaIdentity(table.relation, CMD_UPDATE);
    return table;
}

void take_snapshot(Table *table) {
    if (table->snapshot != nullptr) PopActiveSnapshot();
    PushActiveSnapshot(GetTransactionSnapshot());
    table->snapshot = GetActiveSnapshot();
}

void close_table(Table *table) {
    if (table->executor != nullptr) FreeExecutorState(table->executor);
    for (int i = 0; i < table->index_plan.count; i++)
        if (table->indexes[i] != nullptr) index_close(table->indexes[i], RowExclusiveLock);
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

HeapTupleHeaderData header_of_row(const Table &table) {
    bool copied = false;
    HeapTuple row = ExecFetchSlotHeapTuple(table.row, false, &copied);
    // Others change these fields together, under the lock of the buffer.
    const Buffer buffer = reinterpret_cast<BufferHeapTupleTableSlot *>(table.row)->buffer;
    HeapTupleHeaderData copy;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    memcpy(&copy, row->t_data, SizeofHeapTupleHeader);
    LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
    return copy;
}

bool row_is_changing(const Table &table) {
    HeapTupleHeaderData copy = header_of_row(table);
    HeapTupleHeader header = &copy;
    if ((header->t_infomask & HEAP_XMAX_INVALID) != 0 || HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask)) return false;
    const TransactionId changer = HeapTupleHeaderGetUpdateXid(header);
    if (TransactionIdIsCurrentTransactionId(changer)) return false;
    // Committed: since the snapshot, which sees this version. In this order: it may commit in between.
    return TransactionIdIsInProgress(changer) || TransactionIdDidCommit(changer);
}

bool lock_row_or_skip(Table *table) { return obtained(lock_row(table, LockWaitSkip)); }

void key_was_changed(int64 key) {
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                    errmsg("a trigger has changed the id of a job to %lld", static_cast<long long>(key)),
                    errhint("A BEFORE UPDATE trigger on jobq.jobs must leave the id alone.")));
    pg_unreachable();
}

bool update_row(Table *table, const AttrNumber *columns, int column_count) {
    if (!table->attached.update_by_executor) return update_directly(table, columns, column_count);
    require_trusted_followers(table->relation, RowChange::Update, table->relation->rd_rel->relowner);
    if (!obtained(lock_row(table, LockWaitBlock))) return false;
    update_by_executor(table, columns, column_count);
    return true;
}

bool can_delete_rows(const Table &table) {
    CheckCmdReplicaIdentity(table.relation, CMD_DELETE);
    return !table.attached.delete_by_sql;
}

bool delete_row(Table *table) {
    TM_FailureData failure;
    return obtained(table_tuple_delete(table->relation, &table->row->tts_tid, GetCurrentCommandId(true),
                                       table->snapshot, InvalidSnapshot, true, &failure, false));
}

TupleTableSlot *add_row(Table *table) {
    if (table->added == nullptr)
        table->added = static_cast<TupleTableSlot **>(palloc0(sizeof(TupleTableSlot *) * kMaxAdded));
    TupleTableSlot **added = &table->added[table->added_count++];
    if (*added == nullptr) *added = table_slot_create(table->relation, nullptr);
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
    const TriggerDesc *triggers = table.relation->trigdesc;
    return table.attached.insert_by_executor || (triggers != nullptr && triggers->trig_insert_new_table) ||
           index_plan_of(table.relation).evaluates;
}

void insert_rows(Table *table) {
    const int count = table->added_count;
    table->added_count = 0;
    require_known_defaults(table->relation, table->attached);
    if (table->attached.has_defaults) fill_defaults(table, count);
    if (table->attached.insert_by_executor) {
        for (int i = 0; i < count; i++)
            by_executor(table, table->added[i], nullptr, 0, [&](ResultRelInfo *result, EState *executor, EPQState *) {
                insert_as_executor(*table, table->added[i], result, executor);
            });
        return;
    }
    EarlyToast early[kMaxAdded];
    for (int i = 0; i < count; i++) early[i] = toast_early(table->relation, table->added[i]);
    table_multi_insert(table->relation, table->added, count, GetCurrentCommandId(true), 0, nullptr);
    for (int i = 0; i < count; i++)
        insert_index_entries(table, as_it_was(table, table->added[i], early[i]), kAllIndexes, nullptr, 0);
}

Relation open_whole_index(Oid index) {
    if (!OidIsValid(index)) return nullptr;
    Relation opened = index_open(index, AccessShareLock);
    if (opened->rd_index->indisvalid) return opened;
    index_close(opened, NoLock);
    return nullptr;
}

}  // namespace jobq
