// Uses cached predicates to determine which indexes of a table need an entry for a new row. Most indexes of jobq.jobs
// are partial. Opening, locking, testing, and closing the indexes that need no entry would cost more than inserting
// entries into the indexes that need one.
#pragma once

#include "compat/pg.h"

namespace jobq {

constexpr int kMaxTableIndexes = 32;

// A condition in the predicate of a partial index that can be evaluated without the server's executor: a column is NOT
// NULL, or a boolean column is true.
struct RowTest {
    AttrNumber column = InvalidAttrNumber;  // InvalidAttrNumber: no test
    bool is_true = false;                   // tests a boolean column for true, otherwise for NOT NULL
    bool operator==(const RowTest &other) const { return column == other.column && is_true == other.is_true; }
};
constexpr int kMaxRowTests = 2;

struct PlannedIndex {
    Oid index;
    bool asks_predicate;  // the predicate has other conditions, which need the server's executor
    RowTest tests[kMaxRowTests];
};

// All indexes of a table, including indexes that are being created or dropped.
struct IndexPlan {
    int count;
    // true if an index has an expression, or a predicate that needs the server's executor, so user functions can see
    // the row
    bool evaluates;
    int uniques;
    PlannedIndex indexes[kMaxTableIndexes];
};

// The columns of an index, in order, and its predicate.
constexpr int kMaxIndexedColumns = 8;
struct IndexedColumns {
    bool usual;  // true if this struct completely describes the index: a B-tree in ascending order that compares texts
                 // by their bytes
    bool unique;
    int count;
    AttrNumber keys[kMaxIndexedColumns];
    RowTest tests[kMaxRowTests];
};
IndexedColumns indexed_columns(Relation index);

// Returns the indexes of a table. The caller must have locked the table for changes, so that its indexes cannot change.
// The table must have at most kMaxTableIndexes indexes and no exclusion constraint, because only the server's executor
// can check such a constraint (table/attached.h).
IndexPlan index_plan_of(Relation table);

// Returns false if the row certainly needs no entry in the index. If the result is true and asks_predicate is set, the
// caller must evaluate the predicate to decide whether the row needs an entry.
bool may_belong(const PlannedIndex &planned, const TupleTableSlot *row);

}  // namespace jobq
