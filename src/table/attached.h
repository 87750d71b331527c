// Finds out what users have attached to a table of jobq, and decides from that whether its rows are read and written by
// SQL or directly. No other file decides this. The answer is computed once per version of the table's entry in the
// relation cache (row/jobs_catalog.cpp keeps it), never per row.
#pragma once

#include "compat/pg.h"

namespace jobq {

// What happens if a user gives a column of jobq a default.
enum class OwnDefault : uint8 {
    Unused,    // every insert provides a value
    Honoured,  // the default is used if an insert provides no value
    // inserts raise an error, because other columns are computed from this one before the default would apply
    Refused,
};

// A column as the library expects it.
struct OwnColumn {
    const char *name;
    Oid type;  // InvalidOid: a type of jobq
    bool not_null;
    OwnDefault with_default;
};

// The columns that the library knows. The first `fixed` columns have the numbers 1, 2, and so on in every table. The
// later ones may be missing; `later` contains their numbers, or InvalidAttrNumber for a missing column.
struct OwnColumns {
    const OwnColumn *columns;
    int count, fixed;
    AttrNumber *later;
};
// Converts between the index of a column in `columns` and its number in the table. find_own() returns -1 for other
// columns.
inline AttrNumber number_of(const OwnColumns &own, int i) {
    return i < own.fixed ? static_cast<AttrNumber>(i + 1) : own.later[i - own.fixed];
}
int find_own(const OwnColumns &own, AttrNumber number);

// What is attached to a table. If anything is attached that only SQL honors, rows must not be read and written directly
// (table/table.h).
struct Attached {
    OwnColumns own;
    const char *reason;  // why SQL is needed, in words; nullptr: it is not. Valid until the next call
    // something attached acts on the last change or the deletion of a row, so neither may be left out
    bool sees_ends;
    bool has_rule;               // an enabled rule for INSERT or UPDATE
    bool has_defaults;           // defaults apply to columns for which jobq provides no value
    AttrNumber refused_default;  // a column that must not have a default; InvalidAttrNumber: none
};

// Examines a locked table and looks up the numbers of the later columns. Raises 55000 if a fixed column is missing,
// renamed, or moved, or if any of jobq's columns has another type, because nothing works then.
Attached attached_to(Relation table, const OwnColumns &own);

// Raises 0A000 if rules are attached, because the server then rejects INSERT ... ON CONFLICT.
void require_no_rules(Relation table, const Attached &attached);
// Raises 55000 if a column of jobq has a default that inserts cannot honor.
void require_known_defaults(Relation table, const Attached &attached);

// Returns whether the default of a column applies when jobq provides no value.
bool default_counts(const Attached &attached, Form_pg_attribute column);
// Returns the expression that the server inserts for an omitted column; nullptr for NULL.
Node *default_of(Relation table, Form_pg_attribute column);

// Makes the transaction check deferred constraints at the end of each statement from now on, and those that are already
// queued at once. The checks run with the rights that they would have at the commit; from PostgreSQL 18 on, with those
// of the role that changed the row, which is usually the owner of the extension. Background workers need this because
// they run with the owner's rights, with which they could not check at the commit, and because a failure must hit the
// statement that changes the row.
void check_deferred_constraints();

}  // namespace jobq
