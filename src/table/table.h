// Rows of one of jobq's tables, written in one of two ways. SQL (table/table_sql.h) defines what they mean. The direct
// way does the same as logical replication when it applies changes (src/backend/executor/execReplication.c): an index
// scan, a row lock, table_tuple_update(), and the index entries. It saves the plan cache and the start and end of the
// executor, which are most of the cost of a claim. It is used only if nothing is attached to the table that it would
// bypass (table/attached.h). The caller checks privileges.
//
// There are no destructors, because the server's resource owners release what is open here, also after an error.
#pragma once

#include "compat/pg.h"
#include "table/attached.h"
#include "table/index_plan.h"

extern "C" {
#include "nodes/bitmapset.h"
}

namespace jobq {

// A column that a user's default fills.
struct ColumnDefault {
    AttrNumber column;
    struct ExprState *value;
};

struct Table {
    Relation relation;
    AttrNumber key;  // column whose value must not change
    Attached attached;
    bool by_sql;  // false: the direct way
    Snapshot snapshot;
    TupleTableSlot *row;      // the row that a scan found; by SQL a virtual slot with a valid tts_tid
    TupleTableSlot *changed;  // its new version, in a virtual slot
    TupleTableSlot **added;   // rows to be inserted, allocated when needed
    int added_count;
    ColumnDefault *defaults;  // defaults of users' columns, prepared when needed
    int default_count;
    IndexPlan index_plan;  // empty until the first index entry is inserted
    Relation *indexes;     // opened indexes by their number in the plan; nullptr: not opened
    struct IndexInfo **index_infos;
    struct EState *executor;
};

// Opens a table that the caller has locked for changes. Starts a new command, so that earlier changes are visible.
// Keeps the lock until the transaction ends.
Table open_table(Relation relation, AttrNumber key, const Attached &attached, bool by_sql);
// Returns a slot for a row that a scan finds.
TupleTableSlot *make_row(Relation relation, bool by_sql);
// Takes a new snapshot (READ COMMITTED) or the transaction's snapshot, which the following scans use.
void take_snapshot(Table *table);
void close_table(Table *table);

// Prepares table->changed as a copy of table->row. set_column() replaces values in it.
void begin_change(Table *table);
inline void set_column(TupleTableSlot *row, AttrNumber column, Datum value) {
    row->tts_values[column - 1] = value;
    row->tts_isnull[column - 1] = false;
}

// Reads the current header of the row version at a place. Returns false if the snapshot sees no row there or the
// relation is not a heap.
bool read_row_header(Oid relation, ItemPointerData place, Snapshot snapshot, HeapTupleHeaderData *header);
// Returns the transaction or multixact that last locked or changed table->row. Returns InvalidTransactionId if there is
// none or it is unknown.
TransactionId holder_of_row(const Table &table);

// Returns whether the row is locked only FOR KEY SHARE, as a foreign key check does. Such a lock does not conflict with
// changes that keep the keys.
inline bool keeps_keys_only(const HeapTupleHeaderData &header) {
    return HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask) && HEAP_XMAX_IS_KEYSHR_LOCKED(header.t_infomask);
}
// Returns whether another transaction currently locks or changes table->row, so that a claim skips it. A multixact is
// treated like a transaction with the same number, so the answer may wrongly be true.
bool row_is_held(const Table &table);

// Whether another transaction has updated or deleted table->row since the snapshot, or is doing so. A transaction that
// has only locked the row does not count. Unknown for a table that is not a heap.
enum class Changing : uint8 { No, Yes, Unknown };
Changing change_of_row(const Table &table);
// For callers that only want to avoid an attempt to lock a row that another transaction has locked.
inline bool row_is_changing(const Table &table) { return change_of_row(table) == Changing::Yes; }

// Locks table->row FOR NO KEY UPDATE without waiting. Returns false if another transaction holds or has changed the
// row. Raises 40001 in REPEATABLE READ and above if it has changed since the snapshot.
bool lock_row_or_skip(Table *table);
// The same for a caller that writes the row next, with LockWaitSkip. Does not lock a row that no transaction holds,
// because a lock is a WAL record of its own and the update detects a conflict as well.
bool reach_row_or_skip(Table *table);

// Raises 09000 if an update or deletion by SQL found no row although the row is locked: a user's trigger suppressed it.
[[noreturn]] void change_was_suppressed(const Table &table);
// Raises 27000 because a user's function, called by a change of jobq, has changed the row that is being changed.
[[noreturn]] void row_was_changed_twice();
// Raises 27000 because a user's trigger has given the row this key, so that jobq can no longer identify the row.
[[noreturn]] void key_was_changed(int64 key);

// Writes table->changed over table->row. Afterwards table->changed is the row as stored, including changes by users'
// triggers. Waits for transactions that hold the row. Returns false if it is no longer the newest version (READ
// COMMITTED), in which case the caller must look again under a new snapshot; raises 40001 in REPEATABLE READ and above.
// `columns` are the numbers of the columns that may differ. LockWaitSkip requires that reach_row_or_skip() returned
// true for the row; update_row() then does not wait, and also returns false if another transaction holds the row.
bool update_row(Table *table, const AttrNumber *columns, int column_count, LockWaitPolicy wait = LockWaitBlock);

// Returns whether delete_row() may replace a last change, because nothing is attached that would have to see both.
// Raises 55000 if a publication forbids deletions.
bool can_delete_rows(const Table &table);
// Deletes table->row including its TOAST values. Waits and returns like update_row().
bool delete_row(Table *table);

// Maximum number of rows per insert.
constexpr int kMaxAdded = 256;
// Returns an empty row to be inserted, with all columns NULL.
TupleTableSlot *add_row(Table *table);
// Returns the value of a user's default, for a caller that inserts by SQL and names the column.
Datum column_default(Table *table, AttrNumber column, bool *is_null);
// Returns whether user functions see a row when it is inserted: triggers (also through a transition table) or functions
// in indexes.
bool is_seen_at_insert(const Table &table);
// Inserts the rows of add_row(). table->added contains the rows as inserted until the next add_row().
void insert_rows(Table *table);

// Opens an index for reading. Returns nullptr if it does not exist, or if it may lack rows because CREATE INDEX
// CONCURRENTLY failed.
Relation open_whole_index(Oid index);

// Returns the value of a column of table->row.
inline Datum column_of(const Table &table, AttrNumber column, bool *is_null) {
    return slot_getattr(table.row, column, is_null);
}

}  // namespace jobq
