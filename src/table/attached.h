// Finds out what users have attached to one of jobq's tables (triggers, rules, policies, constraints, and so on) and
// decides whether the rows of the table are read and written by SQL or directly. No other file decides this. The
// decision is made again only when the table's entry in the relation cache changes (row/jobs_catalog.cpp keeps it),
// never per row.
#pragma once

#include "compat/pg.h"

namespace jobq {

// What happens if a user adds a default to one of jobq's columns.
enum class OwnDefault : uint8 {
    Unused,    // every insert provides a value
    Honoured,  // the default is used if an insert provides no value
    // inserts raise an error, because other columns are computed from this column before the default would apply
    Refused,
};

// A column as the library expects it.
struct OwnColumn {
    const char *name;
    Oid type;  // InvalidOid: a type that jobq creates
    bool not_null;
    OwnDefault with_default;
};

// The columns of a table that the library knows. The first `fixed` columns have the numbers 1, 2, and so on in every
// database. Columns of later releases may be missing; `later` contains their numbers, or InvalidAttrNumber for a
// missing column.
struct OwnColumns {
    const OwnColumn *columns;
    int count, fixed;
    AttrNumber *later;
};
// Converts between the index of a column in `columns` and its number in the table. find_own() returns -1 for a column
// that is not one of jobq's.
inline AttrNumber number_of(const OwnColumns &own, int i) {
    return i < own.fixed ? static_cast<AttrNumber>(i + 1) : own.later[i - own.fixed];
}
int find_own(const OwnColumns &own, AttrNumber number);

// What users have attached to a table. If they have attached something that only SQL statements take into account, rows
// must not be read and written directly (table/table.h).
struct Attached {
    OwnColumns own;
    const char *reason;  // why SQL is needed, as text; nullptr if it is not needed. Valid until the next call
    // something attached reacts to the last update or the deletion of a row, so neither may be skipped
    bool sees_ends;
    bool has_rule;               // an enabled rule for INSERT or UPDATE
    bool has_defaults;           // defaults apply to columns for which jobq provides no value
    AttrNumber refused_default;  // a column that must not have a default; InvalidAttrNumber: none
};

// Examines a locked table and looks up the numbers of the later columns. Raises 55000 if a fixed column is missing,
// renamed, or moved, or if one of jobq's columns has an unexpected type, because then the library cannot use the table.
Attached attached_to(Relation table, const OwnColumns &own);

// Raises 0A000 if rules are attached, because the server then rejects INSERT ... ON CONFLICT.
void require_no_rules(Relation table, const Attached &attached);
// Raises 55000 if a column of jobq has a default that inserts cannot honor.
void require_known_defaults(Relation table, const Attached &attached);

// Returns whether the column has a default that applies when jobq provides no value.
bool default_counts(const Attached &attached, Form_pg_attribute column);
// Returns the expression whose value the server inserts for an omitted column, or nullptr for NULL.
Node *default_of(Relation table, Form_pg_attribute column);

// Makes the transaction check deferred constraints at the end of each statement from now on. Immediately runs the
// checks that are already queued. The checks run with the rights that they would have at the commit. Since PostgreSQL
// 18, these are the rights of the role that changed the row, usually the owner of the extension. Background workers
// need this because at the commit they would no longer have the owner's rights, and because a violated constraint must
// cause an error in the statement that changes the row, so that the worker can skip the row.
void check_deferred_constraints();

}  // namespace jobq
