// Reads and writes rows of jobq's tables with SQL. These statements define the meaning of the functions in
// table/table.h. There is one statement with a saved plan for each set of written columns. Each statement runs with the
// privileges of the owner of the table. The server takes into account everything that users have attached to the table.
//
// A row is identified by its ctid, and a statement that writes the row searches for this ctid. So the statement writes
// the version that the snapshot saw, as an update with direct access does. If the statement finds no row, the row has
// changed since the snapshot was taken.
#pragma once

#include "compat/rights.h"
#include "compat/spi.h"
#include "table/table.h"

namespace jobq {

// Maximum number of columns of a table that the library knows, because a set of columns is stored in 64 bits.
constexpr int kMaxOwnColumns = 64;

// Select list of a statement whose rows store_row() reads from table `j`.
#define JOBQ_WHOLE_ROW "j.ctid, j.*"
// Returns the position of the table column in the result of a query with JOBQ_WHOLE_ROW. The column must be one of
// those that jobq has created: they cannot be dropped, so no dropped column shifts the positions.
constexpr int result_column(AttrNumber column) { return column + 1; }

// Copies a row that was selected with JOBQ_WHOLE_ROW into a slot that make_row() created.
void store_row(const Row &row, TupleTableSlot *slot);

// Runs body inside SPI with the privileges of the owner of the table, and returns its result.
template <typename Body>
auto with_sql_of(Relation table, Body body) {
    return as_role(table->rd_rel->relowner, [&] { return with_spi(body); });
}

// These functions implement the corresponding functions of table/table.h.
bool lock_by_sql(Table *table, LockWaitPolicy wait);
bool update_by_sql(Table *table, const AttrNumber *columns, int column_count);
bool delete_by_sql(Table *table);
void insert_by_sql(Table *table, int count);

}  // namespace jobq
