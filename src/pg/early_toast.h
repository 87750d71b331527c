// Wide values that leave a row when it is inserted, so that each later version of the row copies a pointer.
//
// The server asks its toaster only for rows longer than 2 kB, whatever the table's toast_tuple_target says. It does so
// for shorter ones too when a value is an external one, and a pointer into memory counts (VARTAG_INDIRECT, as logical
// decoding uses it). From there on all is the server's: which values are compressed, or moved out, until the row is
// shorter than toast_tuple_target.
#pragma once

#include "pg/pg.h"

namespace jobq {

// Lets the server look at a row, of a table's layout and about to be inserted below SQL, that is longer than its
// toast_tuple_target. The row then has a pointer to the value that was in it: nobody but the table and its indexes may
// be given the row.
void toast_early(Relation table, TupleTableSlot *row);

// The same of one value, for an INSERT by SQL that nobody else sees the row of: a pointer to it, or the value itself
// where that is too short to be moved. The value must stay until the row has been inserted.
Datum apart(Datum value);

}  // namespace jobq
