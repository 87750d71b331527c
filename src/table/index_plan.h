// Which indexes of a table a new row belongs into, kept in the session: most indexes of jobq.jobs are partial, and to
// open, lock, ask and close those that want nothing costs more than the entry in the one that does.
#pragma once

#include "compat/pg.h"

namespace jobq {

constexpr int kMaxTableIndexes = 32;

// What a partial index asks of a row, when it is no more than that one or two columns are not NULL, or true.
struct RowTest {
    AttrNumber column = InvalidAttrNumber;  // none
    bool is_true = false;                   // of a boolean column; otherwise it is not NULL
    bool operator==(const RowTest &other) const { return column == other.column && is_true == other.is_true; }
};
constexpr int kMaxRowTests = 2;

struct PlannedIndex {
    Oid index;
    bool asks_predicate;  // it asks more
    RowTest tests[kMaxRowTests];
};

// The indexes of a table. One that is being made or dropped may be among them, without being ready.
struct IndexPlan {
    int count;
    bool evaluates;  // an expression, or a predicate that must be asked: somebody's functions are given the row
    int uniques;
    PlannedIndex indexes[kMaxTableIndexes];
};

// The columns of an index, in its order, and its predicate.
constexpr int kMaxIndexedColumns = 8;
struct IndexedColumns {
    bool usual;  // a B-tree, ascending, text compared by its bytes, and what stands here is all there is to it
    bool unique;
    int count;
    AttrNumber keys[kMaxIndexedColumns];
    RowTest tests[kMaxRowTests];
};
IndexedColumns indexed_columns(Relation index);

// For a table that is locked for changes; nobody can change its indexes then. At most kMaxTableIndexes, none of them of
// an exclusion constraint, which only the executor can check: see table/attached.h.
IndexPlan index_plan_of(Relation table);

// False: the row does not belong into the index. True where it asks its predicate: that decides.
bool may_belong(const PlannedIndex &planned, const TupleTableSlot *row);

}  // namespace jobq
