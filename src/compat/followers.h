// Checks the tables that a foreign key with CASCADE, SET NULL, or SET DEFAULT changes when jobq changes the referenced
// row.
//
// The server changes the referencing table as the owner of that table. Before PostgreSQL 18, however, AFTER triggers
// and deferred constraint checks that this change queues run as the role that executes the original statement. If jobq
// deletes or updates the row, this role is the owner of jobq.
//
// Every SQL statement of jobq is checked when its execution starts (compat/spi.cpp). Direct row access needs no check,
// because a table with such a foreign key has row triggers and its rows are therefore changed by SQL.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class RowChange : uint8 { Delete, Update };

// Raises 55000 if a role without the rights of `role` decides what such a change runs. The table must be locked for the
// change, so that nothing can be attached to it before the transaction ends. An update is assumed to leave the primary
// key unchanged, because jobq never changes one.
void require_trusted_followers(Relation table, RowChange change, Oid role);

// The same for all tables that a statement changes and for the current user. The tables must be locked. Costs almost
// nothing if no foreign key references the tables.
void require_trusted_followers(const PlannedStmt &plan);

}  // namespace jobq
