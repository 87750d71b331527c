// Checks the tables ("followers") whose rows a foreign key with CASCADE, SET NULL, or SET DEFAULT changes when jobq
// changes the row that they reference.
//
// The server changes the referencing table as the owner of that table. Before PostgreSQL 18, however, AFTER triggers
// and deferred constraint checks that this change queues run as the role that executes the original statement. If jobq
// deletes or updates the row, this role is the owner of jobq.
//
// Every SQL statement of jobq is checked when its execution starts (compat/spi.cpp). Direct row access needs no check:
// a table that such a foreign key references has row triggers, so jobq changes its rows only by SQL.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class RowChange : uint8 { Delete, Update };

// Raises 55000 if such a change would run code that is controlled by a role that lacks the privileges of `role`. The
// caller must have locked the table for the change, so that no foreign key or trigger can be added before the
// transaction ends. For updates, the function assumes that the primary key does not change, because jobq never changes
// one.
void require_trusted_followers(Relation table, RowChange change, Oid role);

// Does the same for all tables that a statement changes, with the current user as `role`. The tables must be locked.
// Costs almost nothing if no foreign key references the tables.
void require_trusted_followers(const PlannedStmt &plan);

}  // namespace jobq
