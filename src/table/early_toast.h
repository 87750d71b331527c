// Moves wide values out of a row when it is inserted, so that each later version of the row only copies a pointer. The
// server handles wide values of later versions without help, because the row then contains such a pointer.
//
// The server calls its toaster only for rows longer than 2 kB, whatever toast_tuple_target says. It also calls it for a
// shorter row if one of its values is external, and a pointer into memory counts as external (VARTAG_INDIRECT, which
// logical decoding uses). So jobq replaces one value with such a pointer. The server then decides which values are
// compressed or moved out until the row is shorter than toast_tuple_target.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The value that was replaced in a row.
struct EarlyToast {
    int column;  // index of the column; -1: none
    Datum value;
};

// Makes the server toast a row if it is longer than toast_tuple_target. The row must have the layout of the table and
// is about to be inserted directly. It then contains a pointer to the value, so it must only be given to the table: if
// a user's function kept a copy, as a cursor does, the copy would contain just the pointer.
EarlyToast toast_early(Relation table, TupleTableSlot *row);

// Does the same for one value of an INSERT by SQL whose rows no user code sees. jobq.apart() in the text of the
// statement returns such a pointer while `body` runs, and otherwise the value. The value must stay valid until the row
// has been inserted.
Datum apart(Datum value);
extern bool apart_allowed;
template <typename Body>
auto with_values_apart(bool allowed, Body body) {
    apart_allowed = allowed;
    auto result = body();
    apart_allowed = false;
    return result;
}
void forget_apart();  // for main/jobq.cpp: called after an error in body

}  // namespace jobq
