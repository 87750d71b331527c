// Determines what users have attached to one of jobq's tables (triggers, rules, policies, constraints, and so on) and
// decides whether the rows of the table are read and written with SQL or directly. No other file decides this. The
// decision is made again only when the table's entry in the relation cache changes (row/jobs_catalog.cpp keeps it),
// never per row.
#pragma once

#include "compat/pg.h"
#include "table/own_columns.h"

namespace jobq {

// What users have attached to a table. If they have attached something that only SQL statements honor, rows must not
// be read or written directly (table/table.h).
struct Attached {
    OwnColumns own;
    const char *reason;  // why SQL is needed, as text; nullptr if it is not needed. Valid until the next call
    // true if something that users have attached reacts to updates or deletions, so jobq must not delete a row without
    // updating it first
    bool sees_ends;
    bool has_rule;               // an enabled rule for INSERT or UPDATE
    bool has_defaults;           // defaults apply to columns for which jobq provides no value
    AttrNumber refused_default;  // a column that must not have a default; InvalidAttrNumber: none
};

// Calls check_own_columns() for a locked table, and examines what users have attached to it.
Attached attached_to(Relation table, const OwnColumns &own);

// Raises 0A000 if rules are attached, because the server then rejects INSERT ... ON CONFLICT.
void require_no_rules(Relation table, const Attached &attached);
// Raises 55000 if one of jobq's columns has a default that inserts cannot honor.
void require_known_defaults(Relation table, const Attached &attached);

// Returns whether the column has a default that applies when jobq provides no value.
bool default_counts(const Attached &attached, Form_pg_attribute column);
// Returns the expression whose value the server inserts for an omitted column, or nullptr for NULL.
Node *default_of(Relation table, Form_pg_attribute column);

}  // namespace jobq
