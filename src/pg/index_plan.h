// Which indexes of a table a new row belongs into, kept in the session: most indexes of jobq.jobs are partial, and to
// open, lock, ask and close those that want nothing costs more than the entry in the one that does.
#pragma once

#include "pg/pg.h"

namespace jobq {

constexpr int kMaxTableIndexes = 32;

// Rows that an index is for, when they can be told by one column.
enum class IndexedRows : uint8 { All, ColumnNotNull, ColumnTrue, AskPredicate };

struct PlannedIndex {
    Oid index;
    IndexedRows rows;
    AttrNumber column;
    AttrNumber second;  // with ColumnNotNull: must not be NULL either; InvalidAttrNumber: none
};

// The indexes of a table. One that is being made or dropped may be among them, without being ready.
struct IndexPlan {
    int count;
    bool evaluates;  // an expression, or a predicate that must be asked: somebody's functions are given the row
    PlannedIndex indexes[kMaxTableIndexes];
};

// The columns of an index, in its order, and those of which its predicate says that they are not NULL.
constexpr int kMaxIndexedColumns = 8;
struct IndexedColumns {
    bool usual;  // a B-tree, ascending, text compared by its bytes, and what stands here is all there is to it
    bool unique;
    int count;
    AttrNumber keys[kMaxIndexedColumns];
    AttrNumber not_null[2];
};
IndexedColumns indexed_columns(Relation index);

// For a table that is locked for changes; nobody can change its indexes then. At most kMaxTableIndexes, none of them of
// an exclusion constraint, which only the executor can check: see pg/attached.h.
IndexPlan index_plan_of(Relation table);

// False: the row does not belong into the index. True with AskPredicate: the index's predicate decides.
bool may_belong(const PlannedIndex &planned, const TupleTableSlot *row);

}  // namespace jobq
