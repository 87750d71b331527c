// Wide values that leave a row when it is inserted, so that each later version of the row copies a pointer. What a
// later version brings the server looks at by itself, since the row has such a pointer.
//
// The server asks its toaster only for rows longer than 2 kB, whatever the table's toast_tuple_target says. It does so
// for shorter ones too when a value is an external one, and a pointer into memory counts (VARTAG_INDIRECT, as logical
// decoding uses it). From there on all is the server's: which values are compressed, or moved out, until the row is
// shorter than toast_tuple_target.
#pragma once

#include "compat/pg.h"

namespace jobq {

// What has been replaced in a row.
struct EarlyToast {
    int column;  // from 0; -1: nothing
    Datum value;
};

// Lets the server look at a row, of a table's layout and about to be inserted below SQL, that is longer than its
// toast_tuple_target. The row then has a pointer to the value that was in it: nobody but the table may be given the
// row. A copy that somebody's function keeps, as a cursor does, would be one of the pointer alone.
EarlyToast toast_early(Relation table, TupleTableSlot *row);

// The same of one value, for an INSERT by SQL of which nobody sees the rows: jobq.apart() in its text returns such a
// pointer while `body` runs, elsewhere the value. The value must stay until the row has been inserted.
Datum apart(Datum value);
extern bool apart_allowed;
template <typename Body>
auto with_values_apart(bool allowed, Body body) {
    apart_allowed = allowed;
    auto result = body();
    apart_allowed = false;
    return result;
}
void forget_apart();  // for main/jobq.cpp: body has failed

}  // namespace jobq
