// The rows of a table of ours by SQL (table/table.h): what reading and writing them means. One statement for each set
// of columns that is written, kept with its plan, with the rights of the table's owner. Whatever is attached to the
// table is honoured, since the server does it.
//
// A row that has been found is known by its place, and a statement that writes it asks for that: it then is the version
// that the snapshot saw, as below SQL. So "no row" says that it has changed since.
#pragma once

#include "compat/rights.h"
#include "compat/spi.h"
#include "table/table.h"

namespace jobq {

// Maximum number of columns that the library knows, because a set of them is a word.
constexpr int kMaxOwnColumns = 64;

// What a statement reads of a row `j`, for store_row().
#define JOBQ_WHOLE_ROW "j.ctid, j.*"
// The column of such a result that has the table's own column of that number; for those that nobody may drop.
constexpr int result_column(AttrNumber column) { return column + 1; }

// Leaves such a row in a slot of make_row(), copied.
void store_row(const Row &row, TupleTableSlot *slot);

// SPI with the rights of the owner of an open table.
template <typename Body>
void with_sql_of(Relation table, Body body) {
    as_role(table->rd_rel->relowner, [&] { with_spi(body); });
}

// See the functions of table/table.h that call these.
bool lock_by_sql(Table *table, LockWaitPolicy wait);
bool update_by_sql(Table *table, const AttrNumber *columns, int column_count);
bool delete_by_sql(Table *table);
void insert_by_sql(Table *table, int count);

}  // namespace jobq
