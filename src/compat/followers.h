// Tables that follow another one by a foreign key (CASCADE, SET NULL, SET DEFAULT), and what hangs on them.
//
// The server makes such a change as the owner of that table, but what it queues to be done after it (AFTER triggers,
// checks of deferrable constraints) runs as whoever runs the statement that began it (before PostgreSQL 18): with the
// rights of jobq's owner, where jobq deletes or updates the row.
//
// All that jobq deletes or updates by SQL is looked at here (compat/spi.cpp), and what it updates as the executor would
// (table/table.cpp). Rows of a table with such a foreign key, which is a row trigger to it, are changed in no other
// way.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class RowChange : uint8 { Delete, Update };

// 55000 when one without the rights of the role has a say in what would run so, when we change rows of the table, which
// is locked for that. Nobody can attach anything any more until the transaction has ended. Updates: of other columns
// than the primary key's, which jobq never changes.
void require_trusted_followers(Relation table, RowChange change, Oid role);

// The same for all tables that a statement changes, whose tables are locked, and the current user. Next to free where
// no table follows.
void require_trusted_followers(const PlannedStmt &plan);

}  // namespace jobq
