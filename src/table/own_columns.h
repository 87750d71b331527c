// The columns of jobq's tables that the library expects.
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
// Converts between the index of a column in `columns` and the number of the column in the table. find_own() returns -1
// for a column that is not one of jobq's columns.
inline AttrNumber number_of(const OwnColumns &own, int i) {
    return i < own.fixed ? static_cast<AttrNumber>(i + 1) : own.later[i - own.fixed];
}
int find_own(const OwnColumns &own, AttrNumber number);

// Looks up the numbers of the later columns of a locked table. Raises 55000 if a fixed column is missing, renamed, or
// moved, or if one of jobq's columns has an unexpected type, because then the library cannot use the table.
void check_own_columns(Relation table, const OwnColumns &own);

}  // namespace jobq
