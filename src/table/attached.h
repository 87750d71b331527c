// What others have attached to a table of ours, and hence which way its rows must go: the one place that decides it.
// Asked once per version of the table's entry in the relation cache (row/jobs_table.cpp keeps the answer), never per
// row.
#pragma once

#include "compat/pg.h"

namespace jobq {

// What becomes of a default that somebody gives to a column of ours.
enum class OwnDefault : uint8 {
    Unused,    // who inserts always has a value
    Honoured,  // it counts where there is none
    Refused,   // other columns follow from this one: it would have to count before they are made
};

// A column as the library expects it.
struct OwnColumn {
    const char *name;
    Oid type;  // InvalidOid: a type of our own
    bool not_null;
    OwnDefault with_default;
};

// The columns that the library knows. The first `fixed` ones have the numbers 1, 2 and so on in every table. A column
// after these may be missing; `later` has the numbers of these columns, InvalidAttrNumber for one that is missing.
struct OwnColumns {
    const OwnColumn *columns;
    int count, fixed;
    AttrNumber *later;
};
// The number of a column of these, from 0, and back. -1: not a column of these.
inline AttrNumber number_of(const OwnColumns &own, int i) {
    return i < own.fixed ? static_cast<AttrNumber>(i + 1) : own.later[i - own.fixed];
}
int find_own(const OwnColumns &own, AttrNumber number);

// Nothing may be attached that only SQL honours where rows are to be read and written below it (table/table.h).
struct Attached {
    OwnColumns own;
    const char *reason;  // the first thing that takes SQL, in words; nullptr: there is none. Good until the next answer
    bool sees_ends;      // somebody learns of a row's last change, or of its end: neither may be left out
    bool has_rule;       // for INSERT or UPDATE
    bool has_defaults;   // columns have defaults that count where a row of ours has no value
    AttrNumber refused_default;  // of a column that must not have one; InvalidAttrNumber: none
};

// Looks up the numbers of the later columns. 55000 when a fixed column is missing, has another name or place, or when
// any of our columns has another type: nothing works then. The table is locked.
Attached attached_to(Relation table, const OwnColumns &own);

// 0A000 when rules are attached: the server refuses INSERT ... ON CONFLICT then.
void require_no_rules(Relation table, const Attached &attached);
// 55000 when a column of ours has a default that an insert of ours cannot honour.
void require_known_defaults(Relation table, const Attached &attached);

// Whether a column's default counts where a row of ours has no value.
bool default_counts(const Attached &attached, Form_pg_attribute column);
// The expression that the server would insert for a column that is left out; nullptr: NULL.
Node *default_of(Relation table, Form_pg_attribute column);

// Lets the transaction check deferred constraints at the end of each statement from here on, those that wait at once,
// with the rights that they would have at the commit, or those of a background worker; from PostgreSQL 18 on with those
// of the role that has changed the row, which for most changes of jobq's is the owner of the extension. Background
// workers, which run with such, could not check them at the commit; and a failure must hit the statement that changes
// the row.
void check_deferred_constraints();

}  // namespace jobq
