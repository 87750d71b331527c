// See index_plan.h.
#include "compat/pg.h"

#include "compat/relation_changes.h"
#include "table/index_plan.h"

#include <algorithm>
#include <iterator>

extern "C" {
#include "catalog/pg_am_d.h"
#include "catalog/pg_collation_d.h"
#include "nodes/primnodes.h"
#include "utils/relcache.h"
}

namespace jobq {

namespace {

// The cached plan of the table for which index_plan_of() was last called.
struct Known {
    Oid table;
    uint64 changes;  // value of `changes` when the plan was read
    IndexPlan plan;
};
Known known = {};
Oid planned_table = InvalidOid;
uint64 changes = 0;

// Makes the next call read the plan again if the invalidation is for the table whose plan is cached. When an index is
// created or dropped, the server also invalidates the table of the index.
void note_change(Oid relation) {
    if (relation == InvalidOid || relation == planned_table) changes++;
}

// Returns the test for a term of a predicate ("column IS NOT NULL" or a boolean column), or a test without a column for
// any other term.
RowTest test_of(const Node *term) {
    const bool is_true = IsA(term, Var);
    const Node *column = term;
    if (!is_true) {
        if (!IsA(term, NullTest)) return {};
        const auto *test = reinterpret_cast<const NullTest *>(term);
        if (test->nulltesttype != IS_NOT_NULL || !IsA(test->arg, Var)) return {};
        column = reinterpret_cast<const Node *>(test->arg);
    }
    return {reinterpret_cast<const Var *>(column)->varattno, is_true};
}

// Returns the index and the tests for its predicate. All predicates of jobq's own indexes can be tested without the
// server's executor.
PlannedIndex planned_of(Relation index) {
    const List *predicate = RelationGetIndexPredicate(index);
    PlannedIndex planned = {RelationGetRelid(index), list_length(predicate) > kMaxRowTests, {}};
    for (int i = 0; i < list_length(predicate) && !planned.asks_predicate; i++) {
        planned.tests[i] = test_of(static_cast<const Node *>(list_nth(predicate, i)));
        planned.asks_predicate = planned.tests[i].column == InvalidAttrNumber;
    }
    return planned;
}

void add_index(IndexPlan *plan, Relation index) {
    // The caller must not make a plan for a table with too many indexes or with an exclusion constraint. jobq writes
    // the rows of such a table with SQL (table/attached.h).
    if (plan->count == kMaxTableIndexes || index->rd_index->indisexclusion)
        elog(ERROR, "jobq: unexpected index \"%s\"", RelationGetRelationName(index));
    const PlannedIndex planned = planned_of(index);
    plan->evaluates |= planned.asks_predicate || RelationGetIndexExpressions(index) != NIL;
    plan->uniques += index->rd_index->indisunique ? 1 : 0;
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
    planned_table = RelationGetRelid(table);
    if (!is_known(planned_table)) {
        on_relation_change<note_change>();
        // Reading the plan takes locks, and taking a lock processes invalidations, which make the next call read the
        // plan again. The plan is still right for this call: the table was locked before, and a session that creates or
        // drops an index waits for this lock.
        const uint64 before = changes;
        known = {planned_table, before, read_plan(table)};
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
    columns.usual &= !planned.asks_predicate;
    std::copy(std::begin(planned.tests), std::end(planned.tests), columns.tests);
    return columns;
}

bool may_belong(const PlannedIndex &planned, const TupleTableSlot *row) {
    if (planned.asks_predicate) return true;
    for (const RowTest &test : planned.tests) {
        if (test.column == InvalidAttrNumber) break;
        const int i = test.column - 1;
        if (row->tts_isnull[i] || (test.is_true && !DatumGetBool(row->tts_values[i]))) return false;
    }
    return true;
}

}  // namespace jobq
