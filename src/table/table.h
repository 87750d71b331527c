// Reads and writes rows of jobq's tables either with SQL or directly. The SQL statements in table/table_sql.h define
// the meaning. Direct access works like the apply worker of logical replication
// (src/backend/executor/execReplication.c): an index scan, a row lock, table_tuple_update(), and the index entries.
// Direct access avoids the plan cache and the start and end of the server's executor, which account for most of the
// cost of a claim. It is used only if users have attached nothing to the table that direct access would bypass
// (table/attached.h). The caller checks privileges.
//
// There are no destructors, because the server's resource owners release relations, scans, and slots, even after an
// error.
#pragma once

#include "compat/pg.h"
#include "table/attached.h"
#include "table/index_plan.h"

extern "C" {
#include "nodes/bitmapset.h"
}

namespace jobq {

// A column for which a user has defined a default.
struct ColumnDefault {
    AttrNumber column;
    struct ExprState *value;
};

struct Table {
    Relation relation;
    AttrNumber key;  // column whose value must not change
    Attached attached;
    bool by_sql;  // false: rows are accessed directly
    Snapshot snapshot;
    TupleTableSlot *row;      // the row that a scan found; with SQL access a virtual slot with a valid tts_tid
    TupleTableSlot *changed;  // the new version of `row`, in a virtual slot
    TupleTableSlot **added;   // rows to be inserted, allocated when needed
    int added_count;
    ColumnDefault *defaults;  // defaults of users' columns, prepared when needed
    int default_count;
    IndexPlan index_plan;  // empty until the first index entry is inserted
    Relation *indexes;     // opened indexes by their number in the plan; nullptr: not opened
    struct IndexInfo **index_infos;
    struct EState *executor;
};

// Opens a table that the caller has locked for changes. Starts a new command, so that earlier changes by this
// transaction are visible. Keeps the lock until the transaction ends.
Table open_table(Relation relation, AttrNumber key, const Attached &attached, bool by_sql);
// Creates a slot into which a scan can store a row.
TupleTableSlot *make_row(Relation relation, bool by_sql);
// Sets the snapshot for the following scans: a new snapshot in READ COMMITTED, and the transaction's snapshot in
// REPEATABLE READ and above.
void take_snapshot(Table *table);
void close_table(Table *table);

// Prepares table->changed as a copy of table->row. set_column() replaces values in it.
void begin_change(Table *table);
inline void set_column(TupleTableSlot *row, AttrNumber column, Datum value) {
    row->tts_values[column - 1] = value;
    row->tts_isnull[column - 1] = false;
}

// Reads the current header of the row version at `place` (ctid). Returns false if the snapshot sees no row there or the
// relation is not a heap.
bool read_row_header(Oid relation, ItemPointerData place, Snapshot snapshot, HeapTupleHeaderData *header);
// Returns the transaction or multixact that last locked or changed table->row, or InvalidTransactionId if there is no
// such transaction or it is unknown.
TransactionId holder_of_row(const Table &table);

// Returns whether the row is locked only FOR KEY SHARE, as a foreign key check does. Such a lock does not conflict with
// changes that do not change the key columns.
inline bool keeps_keys_only(const HeapTupleHeaderData &header) {
    return HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask) && HEAP_XMAX_IS_KEYSHR_LOCKED(header.t_infomask);
}
// Returns whether another transaction currently holds a lock on table->row or is changing it, so that a claim skips the
// row. A multixact is treated like a transaction with the same number, so the function can wrongly return true.
bool row_is_held(const Table &table);

// Whether another transaction has updated or deleted table->row since the snapshot was taken, or is currently updating
// or deleting it. A transaction that has only locked the row does not count. The result is unknown for a table that is
// not a heap.
enum class Changing : uint8 { No, Yes, Unknown };
Changing change_of_row(const Table &table);
// Returns whether another transaction is known to have changed table->row. This function is for callers that only want
// to avoid a useless attempt to lock the row.
inline bool row_is_changing(const Table &table) { return change_of_row(table) == Changing::Yes; }

// Locks table->row FOR NO KEY UPDATE without waiting. Returns false if another transaction holds or has changed the
// row. Raises 40001 in REPEATABLE READ and above if the row has changed since the snapshot was taken.
bool lock_row_or_skip(Table *table);
// Prepares table->row for a call to update_row() with LockWaitSkip. Works like lock_row_or_skip(), but does not lock
// the row if no transaction holds it, because a lock would write an additional WAL record, and the update detects
// conflicts anyway.
bool reach_row_or_skip(Table *table);

// Raises 09000 because an SQL UPDATE or DELETE changed no row although the row is locked, so a user's trigger must have
// suppressed the change.
[[noreturn]] void change_was_suppressed(const Table &table);
// Raises 27000 because a user's function, such as a trigger, has changed the row that jobq is changing.
[[noreturn]] void row_was_changed_twice();
// Raises 27000 because a user's trigger has changed the key of the row to `key`, so that jobq can no longer identify
// the row.
[[noreturn]] void key_was_changed(int64 key);

// Updates table->row to table->changed. After the update, table->changed is the row as stored, including changes by
// users' triggers. Waits for transactions that hold the row. If table->row is no longer the newest version, returns
// false in READ COMMITTED, and raises 40001 in REPEATABLE READ and above. If the result is false, the caller must read
// the row again under a new snapshot. `columns` are the numbers of the columns that can differ. With LockWaitSkip,
// reach_row_or_skip() must have returned true for the row; update_row() then does not wait, and also returns false if
// another transaction holds the row.
bool update_row(Table *table, const AttrNumber *columns, int column_count, LockWaitPolicy wait = LockWaitBlock);

// Returns whether jobq is allowed to delete a row without updating it first. This is the case if users have attached
// nothing that must see both the update and the deletion. Raises 55000 if a publication forbids deletions.
bool can_delete_rows(const Table &table);
// Deletes table->row and its TOAST values. Waits, returns false, and raises errors in the same cases as update_row().
bool delete_row(Table *table);

// Maximum number of rows per insert.
constexpr int kMaxAdded = 256;
// Returns an empty row to be inserted, with all columns NULL.
TupleTableSlot *add_row(Table *table);
// Returns the value of the user's default for a column. A caller that inserts with SQL and names the column in its
// statement needs this value.
Datum column_default(Table *table, AttrNumber column, bool *is_null);
// Returns whether user functions see a row when it is inserted. Such functions are triggers, including triggers with
// transition tables, and functions in index definitions.
bool is_seen_at_insert(const Table &table);
// Inserts the rows that add_row() returned. Until the next call to add_row(), table->added contains the rows as they
// were inserted.
void insert_rows(Table *table);

// Opens an index for reading. Returns nullptr if the index does not exist, or if it might be incomplete because CREATE
// INDEX CONCURRENTLY failed.
Relation open_whole_index(Oid index);

// Returns the value of a column of table->row.
inline Datum column_of(const Table &table, AttrNumber column, bool *is_null) {
    return slot_getattr(table.row, column, is_null);
}

}  // namespace jobq
