// Moves wide values of a row to the TOAST table as soon as the row is inserted, so that later versions of the row only
// copy a pointer. The server itself handles wide values in later versions, because the row then contains an external
// value (see below).
//
// The server toasts only rows longer than 2 kB, even if toast_tuple_target is lower. It also toasts a shorter row if
// one of its values is external, and a pointer into memory (VARTAG_INDIRECT, which logical decoding uses) counts as
// external. So jobq replaces one value with a pointer into memory. The server then compresses or moves out values until
// the row is shorter than toast_tuple_target.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The original value that toast_early() replaced in a row.
struct EarlyToast {
    int column;  // index of the column; -1: none
    Datum value;
};

// Makes the server toast a row if it is longer than toast_tuple_target. The row must have the layout of the table and
// must be inserted directly next. Until then it contains a pointer into memory, so it must not be passed to user
// functions: if one kept a copy, as a cursor does, the copy would contain only the pointer.
EarlyToast toast_early(Relation table, TupleTableSlot *row);

// Does the same for one value of an SQL INSERT whose rows no user code sees. While with_values_apart(true, body) runs,
// the function jobq.apart() in the text of the statement returns a pointer into memory; otherwise it returns the value
// itself. The value must stay valid until the row has been inserted.
Datum apart(Datum value);
extern bool apart_allowed;
template <typename Body>
auto with_values_apart(bool allowed, Body body) {
    apart_allowed = allowed;
    auto result = body();
    apart_allowed = false;
    return result;
}
void forget_apart();  // resets apart_allowed after an error in body; main/jobq.cpp calls it

}  // namespace jobq
