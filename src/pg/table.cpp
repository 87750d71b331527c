// See table.h.
#include "pg/pg.h"

#include "pg/rights.h"
#include "pg/spi.h"
#include "pg/table.h"

extern "C" {
#include "access/heapam.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/index.h"
#include "catalog/pg_trigger.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/makefuncs.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
}

namespace jobq {

namespace {

// The triggers that jobq declares itself all begin with WHEN (jobq.by_hand()): never for what is done here.
bool is_own_trigger(const Trigger &trigger) {
    constexpr const char *names[] = {"fill_job", "count_job", "follow_job", "tell_job", "forget_job"};
    for (const char *name : names)
        if (strcmp(trigger.tgname, name) == 0) return true;
    return false;
}

bool fires_for(const Trigger &trigger, int16 event) {
    return TRIGGER_FOR_ROW(trigger.tgtype) && (trigger.tgtype & event) != 0 && trigger.tgenabled != TRIGGER_DISABLED;
}

// Whether somebody attached what only the executor can honour: a row trigger (a deferrable constraint has one), a
// constraint, a generated column.
bool needs_executor(const Table &table, int16 event) {
    const TriggerDesc *triggers = table.relation->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
        if (fires_for(triggers->triggers[i], event) && !is_own_trigger(triggers->triggers[i])) return true;
    const TupleConstr *constraints = RelationGetDescr(table.relation)->constr;
    return constraints != nullptr && (constraints->num_check > 0 || constraints->has_generated_stored);
}

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

// The executor's way, with its owner's rights: row triggers, constraints, any kind of index. change(result, executor,
// recheck) does it to one row, whose place in the table is then that of `row`.
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
        as_own_statement([&] {
            change(result, executor, &recheck);
            AfterTriggerEndQuery(executor);
        });
    });
    if (!ItemPointerIsValid(&row->tts_tid)) suppressed(*table);
    ExecCloseIndices(result);
    EvalPlanQualEnd(&recheck);
    ExecResetTupleTable(executor->es_tupleTable, false);
    FreeExecutorState(executor);
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

}  // namespace

Table open_table(Oid relation) {
    Table table = {};
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

bool update_row(Table *table, const AttrNumber *columns, int column_count) {
    if (!needs_executor(*table, TRIGGER_TYPE_UPDATE)) return update_directly(table, columns, column_count);
    if (!obtained(lock_row(table, LockWaitBlock))) return false;
    by_executor(table, table->changed, columns, column_count,
                [&](ResultRelInfo *result, EState *executor, EPQState *recheck) {
                    ExecSimpleRelationUpdate(result, executor, recheck, table->row, table->changed);
                });
    return true;
}

bool can_delete_rows(const Table &table) {
    CheckCmdReplicaIdentity(table.relation, CMD_DELETE);
    if (needs_executor(table, TRIGGER_TYPE_UPDATE) || needs_executor(table, TRIGGER_TYPE_DELETE)) return false;
    const TriggerDesc *triggers = table.relation->trigdesc;
    const bool for_statements =
        triggers != nullptr && (triggers->trig_delete_before_statement || triggers->trig_delete_after_statement);
    return !for_statements && table.relation->rd_rules == nullptr;
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

void insert_rows(Table *table) {
    const int count = table->added_count;
    table->added_count = 0;
    if (needs_executor(*table, TRIGGER_TYPE_INSERT)) {
        for (int i = 0; i < count; i++)
            by_executor(table, table->added[i], nullptr, 0, [&](ResultRelInfo *result, EState *executor, EPQState *) {
                ExecSimpleRelationInsert(result, executor, table->added[i]);
            });
        return;
    }
    table_multi_insert(table->relation, table->added, count, GetCurrentCommandId(true), 0, nullptr);
    for (int i = 0; i < count; i++) insert_index_entries(table, table->added[i], kAllIndexes, nullptr, 0);
}

}  // namespace jobq
