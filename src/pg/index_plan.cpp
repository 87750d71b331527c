// See index_plan.h.
#include "pg/pg.h"

#include "pg/index_plan.h"
#include "pg/relation_changes.h"

extern "C" {
#include "catalog/pg_am_d.h"
#include "catalog/pg_collation_d.h"
#include "nodes/primnodes.h"
#include "utils/inval.h"
#include "utils/relcache.h"
}

namespace jobq {

namespace {

// Of the table that was asked for last.
struct Known {
    Oid table;
    uint64 changes;  // when it was read
    IndexPlan plan;
};
Known known;
Oid watched_table = InvalidOid;
uint64 changes = 0;
bool callback_registered = false;

// An index that is made or dropped invalidates its table, too.
void note_change(Oid relation) {
    if (relation == InvalidOid || relation == watched_table) changes++;
}

// The column of a test "column IS NOT NULL"; InvalidAttrNumber: it is another one.
AttrNumber not_null_column(const Node *node) {
    if (!IsA(node, NullTest)) return InvalidAttrNumber;
    const auto *test = reinterpret_cast<const NullTest *>(node);
    if (test->nulltesttype != IS_NOT_NULL || !IsA(test->arg, Var)) return InvalidAttrNumber;
    return reinterpret_cast<const Var *>(test->arg)->varattno;
}

// The predicates of our own indexes, one or two "column IS NOT NULL" and a boolean column, are read off the row.
PlannedIndex planned_of(Relation index) {
    const List *predicate = RelationGetIndexPredicate(index);
    PlannedIndex planned = {RelationGetRelid(index), IndexedRows::All, InvalidAttrNumber, InvalidAttrNumber};
    if (predicate == NIL) return planned;
    planned.rows = IndexedRows::AskPredicate;
    if (list_length(predicate) > 2) return planned;
    const auto *only = static_cast<const Node *>(linitial(predicate));
    const AttrNumber column = not_null_column(only);
    if (column != InvalidAttrNumber) {
        const bool two = list_length(predicate) == 2;
        const AttrNumber second =
            two ? not_null_column(static_cast<const Node *>(lsecond(predicate))) : InvalidAttrNumber;
        if (two && second == InvalidAttrNumber) return planned;
        planned.rows = IndexedRows::ColumnNotNull;
        planned.column = column;
        planned.second = second;
    } else if (list_length(predicate) == 1 && IsA(only, Var)) {
        planned.rows = IndexedRows::ColumnTrue;
        planned.column = reinterpret_cast<const Var *>(only)->varattno;
    }
    return planned;
}

void add_index(IndexPlan *plan, Relation index) {
    // Such a table's rows go by SQL (pg/attached.h).
    if (plan->count == kMaxTableIndexes || index->rd_index->indisexclusion)
        elog(ERROR, "jobq: unexpected index \"%s\"", RelationGetRelationName(index));
    const PlannedIndex planned = planned_of(index);
    plan->evaluates |= planned.rows == IndexedRows::AskPredicate || RelationGetIndexExpressions(index) != NIL;
    plan->indexes[plan->count++] = planned;
}

IndexPlan read_plan(Relation table) {
    IndexPlan plan = {};
    List *oids = RelationGetIndexList(table);
    ListCell *cell;
    foreach (cell, oids) {
        Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
        add_index(&plan, index);
        index_close(index, RowExclusiveLock);
    }
    list_free(oids);
    return plan;
}

bool is_known(Oid table) { return known.table == table && known.changes == changes; }

}  // namespace

IndexPlan index_plan_of(Relation table) {
    if (!callback_registered) {
        on_relation_change(note_change);
        callback_registered = true;
    }
    watched_table = RelationGetRelid(table);
    if (!is_known(watched_table)) {
        // Reading takes locks, and whoever takes a lock hears of what others have changed: then the next call reads
        // again. For this one the table has been locked before, and whoever makes or drops an index waits for that
        // lock.
        const uint64 before = changes;
        known = {watched_table, before, read_plan(table)};
    }
    return known.plan;
}

IndexedColumns indexed_columns(Relation index) {
    const FormData_pg_index *form = index->rd_index;
    IndexedColumns columns = {};
    columns.unique = form->indisunique;
    columns.count = form->indnkeyatts;
    columns.usual = index->rd_rel->relam == BTREE_AM_OID && form->indnatts == form->indnkeyatts &&
                    form->indnatts <= kMaxIndexedColumns;
    for (int i = 0; columns.usual && i < columns.count; i++) {
        columns.keys[i] = form->indkey.values[i];
        const Oid collation = index->rd_indcollation[i];
        columns.usual &= index->rd_indoption[i] == 0 && (!OidIsValid(collation) || collation == C_COLLATION_OID);
    }
    const PlannedIndex planned = planned_of(index);
    columns.usual &= planned.rows == IndexedRows::All || planned.rows == IndexedRows::ColumnNotNull;
    columns.not_null[0] = planned.column;
    columns.not_null[1] = planned.second;
    return columns;
}

bool may_belong(const PlannedIndex &planned, const TupleTableSlot *row) {
    const int i = planned.column - 1;
    switch (planned.rows) {
        case IndexedRows::ColumnNotNull:
            return !row->tts_isnull[i] && (planned.second == InvalidAttrNumber || !row->tts_isnull[planned.second - 1]);
        case IndexedRows::ColumnTrue:
            return !row->tts_isnull[i] && DatumGetBool(row->tts_values[i]);
        default:
            return true;
    }
}

}  // namespace jobq
