// Rows of one of our own tables, written in one of two ways. What they mean is SQL (table/table_sql.h). The direct way
// does the same below it, as the server's logical replication applies changes (src/backend/executor/execReplication.c):
// an index scan, a row lock, table_tuple_update, the index entries. What a statement costs besides (plan cache,
// executor start-up and shut-down) is most of the price of a claim. It is taken only where nothing is attached that it
// would pass by (table/attached.h). Privileges are the caller's affair.
//
// No destructors: what is open here belongs to the server's resource owners, which an error cleans up.
#pragma once

#include "compat/pg.h"
#include "table/attached.h"
#include "table/index_plan.h"

extern "C" {
#include "nodes/bitmapset.h"
}

namespace jobq {

// A column that somebody's default fills.
struct ColumnDefault {
    AttrNumber column;
    struct ExprState *value;
};

struct Table {
    Relation relation;
    AttrNumber key;  // of which nobody may change the value
    Attached attached;
    bool by_sql;  // else the direct way
    Snapshot snapshot;
    TupleTableSlot *row;      // what a scan found; virtual by SQL, but its place is known
    TupleTableSlot *changed;  // its new version, virtual
    TupleTableSlot **added;   // rows to be inserted, made when needed
    int added_count;
    ColumnDefault *defaults;  // of attached columns, made when needed
    int default_count;
    IndexPlan index_plan;  // empty until an entry is to be made
    Relation *indexes;     // by its numbers, nullptr: not opened
    struct IndexInfo **index_infos;
    struct EState *executor;
};

// Opens a table, which the caller has locked for changes, in a command of its own: changes made before are seen. The
// lock stays until the transaction ends.
Table open_table(Relation relation, AttrNumber key, const Attached &attached, bool by_sql);
// The slot for a row that a scan finds.
TupleTableSlot *make_row(Relation relation, bool by_sql);
// A fresh snapshot (READ COMMITTED) or the transaction's, for the scans to come.
void take_snapshot(Table *table);
void close_table(Table *table);

// Prepares table->changed as a copy of table->row; set_column replaces values in it.
void begin_change(Table *table);
inline void set_column(TupleTableSlot *row, AttrNumber column, Datum value) {
    row->tts_values[column - 1] = value;
    row->tts_isnull[column - 1] = false;
}

// The header of the version of a row at a place, as it is at this moment; false: the snapshot sees none there, or the
// relation is no heap.
bool read_row_header(Oid relation, ItemPointerData place, Snapshot snapshot, HeapTupleHeaderData *header);
// The transaction that has locked or changed table->row last, perhaps a multixact; InvalidTransactionId: nobody, or it
// cannot be known.
TransactionId holder_of_row(const Table &table);

// Whether it is locked by FOR KEY SHARE alone, as the check of a foreign key does: that keeps nobody from a change that
// leaves the keys as they are.
inline bool keeps_keys_only(const HeapTupleHeaderData &header) {
    return HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask) && HEAP_XMAX_IS_KEYSHR_LOCKED(header.t_infomask);
}
// Whether somebody locks or changes table->row, so that a claim passes over it. A multixact looks like a transaction of
// that number, and may be taken for one that goes on.
bool row_is_held(const Table &table);

// Whether another transaction has written a new version of table->row or deleted it since the snapshot, or is doing so.
// One that has only locked it does not count. It cannot be known in a table that is no heap.
enum class Changing : uint8 { No, Yes, Unknown };
Changing change_of_row(const Table &table);
// For who asks only to be spared a lock that would fail.
inline bool row_is_changing(const Table &table) { return change_of_row(table) == Changing::Yes; }

// Locks table->row FOR NO KEY UPDATE. False when somebody else holds or has changed it: never waits.
// 40001 in REPEATABLE READ and above when it has changed since the snapshot.
bool lock_row_or_skip(Table *table);
// The same for who writes the row next, with LockWaitSkip. A row that nobody holds is not locked then: a lock is a WAL
// record of its own, and the update finds out as well who came first.
bool reach_row_or_skip(Table *table);

// What an update or a deletion came to by SQL when it found no row although that is locked, 09000: somebody's trigger.
[[noreturn]] void change_was_suppressed(const Table &table);
// 27000: somebody's function, on the way of a change of ours, has changed the row that this is to change.
[[noreturn]] void row_was_changed_twice();
// 27000: somebody's trigger has given a row another key, this one, so that nobody knows any more which row it is.
[[noreturn]] void key_was_changed(int64 key);

// Writes table->changed over table->row; table->changed has the row as the table holds it then, whatever triggers of
// somebody's have made of it. Waits for whoever holds the row. False when it is not the newest version any more (READ
// COMMITTED): look again under a new snapshot; 40001 in REPEATABLE READ and above. `columns` are the numbers of those
// that may differ. LockWaitSkip, of a row that reach_row_or_skip has reached: does not wait, and is false also when
// somebody else holds it.
bool update_row(Table *table, const AttrNumber *columns, int column_count, LockWaitPolicy wait = LockWaitBlock);

// Whether delete_row may be used in place of a last change: nobody has attached what would have to learn of both. 55000
// when a publication forbids it.
bool can_delete_rows(const Table &table);
// Deletes table->row, TOAST included. Waits and answers as update_row does.
bool delete_row(Table *table);

// At most so many rows at once.
constexpr int kMaxAdded = 256;
// An empty row to be inserted, all columns NULL.
TupleTableSlot *add_row(Table *table);
// What a column gets by default that somebody has given it, for who inserts by SQL and names the column.
Datum column_default(Table *table, AttrNumber column, bool *is_null);
// Whether somebody's functions are given a row on its way in: triggers, also by a transition table, or indexes.
bool is_seen_at_insert(const Table &table);
// Inserts what add_row has added; table->added has the rows as they were inserted until the next add_row.
void insert_rows(Table *table);

// Opens an index to read it; nullptr when there is none, or one that need not have all rows: what a CREATE INDEX
// CONCURRENTLY leaves behind that failed.
Relation open_whole_index(Oid index);

// The value of a column of table->row.
inline Datum column_of(const Table &table, AttrNumber column, bool *is_null) {
    return slot_getattr(table.row, column, is_null);
}

}  // namespace jobq
