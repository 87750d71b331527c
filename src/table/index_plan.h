// Caches in the session which indexes of a table need an entry for a new row. Most indexes of jobq.jobs are partial,
// and opening, locking, testing, and closing those that need no entry would cost more than inserting the entry into the
// one that does.
#pragma once

#include "compat/pg.h"

namespace jobq {

constexpr int kMaxTableIndexes = 32;

// A test of a partial index that can be evaluated on the row without the executor: a column is NOT NULL, or a boolean
// column is true.
struct RowTest {
    AttrNumber column = InvalidAttrNumber;  // InvalidAttrNumber: no test
    bool is_true = false;                   // tests a boolean column for true, otherwise for NOT NULL
    bool operator==(const RowTest &other) const { return column == other.column && is_true == other.is_true; }
};
constexpr int kMaxRowTests = 2;

struct PlannedIndex {
    Oid index;
    bool asks_predicate;  // the predicate has other tests and needs the executor
    RowTest tests[kMaxRowTests];
};

// The indexes of a table, including those that are being created or dropped and may not be ready.
struct IndexPlan {
    int count;
    // an index has an expression or a predicate that needs the executor, so user functions may see the row
    bool evaluates;
    int uniques;
    PlannedIndex indexes[kMaxTableIndexes];
};

// The columns of an index, in order, and its predicate.
constexpr int kMaxIndexedColumns = 8;
struct IndexedColumns {
    bool usual;  // a B-tree in ascending order, texts compared by their bytes, that this struct describes completely
    bool unique;
    int count;
    AttrNumber keys[kMaxIndexedColumns];
    RowTest tests[kMaxRowTests];
};
IndexedColumns indexed_columns(Relation index);

// Returns the indexes of a table that is locked for changes, so that they cannot change. The table must have at most
// kMaxTableIndexes and no exclusion constraint, which only the executor can check: see table/attached.h.
IndexPlan index_plan_of(Relation table);

// Returns false if the row does not belong in the index. If asks_predicate is set, returns true and the predicate
// decides.
bool may_belong(const PlannedIndex &planned, const TupleTableSlot *row);

}  // namespace jobq
