// Checks the followers of a table. A follower is a table that references this table with a foreign key whose action is
// CASCADE, SET NULL, or SET DEFAULT. If jobq changes a row of the referenced table, the server also changes the rows of
// the follower that reference this row.
//
// The server changes the follower's rows as the owner of the follower. However, such a change can queue AFTER triggers
// and deferred constraint checks, and before PostgreSQL 18, these run as the role that executes the original statement.
// If jobq deletes or updates the referenced row, this role is the owner of jobq.
//
// Every SQL statement of jobq is checked when its execution starts (compat/spi.cpp). Direct row access needs no check,
// because a table that such a foreign key references has row triggers, so jobq changes its rows only with SQL.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class RowChange : uint8 { Delete, Update };

// Raises 55000 if a change of this kind to the table would run code that is controlled by a role that lacks the
// privileges of `role`. The caller must have locked the table for the change, so that no foreign key or trigger can be
// added before the transaction ends. For updates, the function assumes that the primary key does not change, because
// jobq never changes a primary key.
void require_trusted_followers(Relation table, RowChange change, Oid role);

// Calls the function above for each table that a statement changes, with the current user as `role`. The tables must be
// locked. The check costs almost nothing if no foreign key references the tables.
void require_trusted_followers(const PlannedStmt &plan);

}  // namespace jobq
