// Moves wide values of a row to the TOAST table as soon as the row is inserted, so that later versions of the row only
// copy a pointer. If later versions get more wide values, the server moves these values to the TOAST table without
// jobq's help, because the row then already contains an external value (see below).
//
// The server toasts only rows longer than 2 kB, even if toast_tuple_target is lower. It also toasts a shorter row if
// one of the row's values is external, and an indirect TOAST pointer (VARTAG_INDIRECT), which points to a value in
// memory, counts as external. So jobq replaces one value with an indirect pointer. The server then compresses values or
// moves them out until the row is shorter than toast_tuple_target.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The original value that toast_early() replaced in a row.
struct EarlyToast {
    int column;  // index of the column; -1: none
    Datum value;
};

// Makes the server toast a row if the row is longer than toast_tuple_target. The row must have the layout of the table,
// and the caller must insert the row immediately. Until then, the row contains an indirect TOAST pointer, so the row
// must not be passed to user functions: if a user function kept a copy of the row, for example in a cursor, the copy
// would contain only the pointer.
EarlyToast toast_early(Relation table, TupleTableSlot *row);

// Implements the SQL function jobq.apart(), with which an INSERT makes the server toast a row. While
// with_values_apart(true, body) runs, jobq.apart() replaces a long value with an indirect TOAST pointer to it;
// otherwise, it returns the value itself. User code must not see the row before it is inserted, and the value must stay
// valid until then.
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
