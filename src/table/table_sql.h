// Rows of a table of jobq by SQL (table/table.h), which defines what reading and writing them means. There is one
// statement with a kept plan for each set of written columns. It runs with the rights of the owner of the table. The
// server honors whatever is attached to the table.
//
// A row is identified by its place (ctid), and a statement that writes it looks for this place. So it writes the
// version that the snapshot saw, like the direct way, and "no row" means that the row has changed since.
#pragma once

#include "compat/rights.h"
#include "compat/spi.h"
#include "table/table.h"

namespace jobq {

// Maximum number of columns that the library knows, because a set of columns is a 64-bit word.
constexpr int kMaxOwnColumns = 64;

// Select list of a statement whose rows store_row() reads from table `j`.
#define JOBQ_WHOLE_ROW "j.ctid, j.*"
// Returns the result column for the table column with this number. Only for columns that cannot be dropped.
constexpr int result_column(AttrNumber column) { return column + 1; }

// Copies such a row into a slot of make_row().
void store_row(const Row &row, TupleTableSlot *slot);

// Runs body inside SPI with the rights of the owner of the table.
template <typename Body>
void with_sql_of(Relation table, Body body) {
    as_role(table->rd_rel->relowner, [&] { with_spi(body); });
}

// These implement the functions of table/table.h.
bool lock_by_sql(Table *table, LockWaitPolicy wait);
bool update_by_sql(Table *table, const AttrNumber *columns, int column_count);
bool delete_by_sql(Table *table);
void insert_by_sql(Table *table, int count);

}  // namespace jobq
