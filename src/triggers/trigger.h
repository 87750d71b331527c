// The checks that every trigger function of jobq performs first.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class TriggerTiming : uint8 { BeforeRow, AfterRow, AfterAny };

// Raises 39P01 unless the function was called by a trigger on a table of jobq.
const TriggerData *trigger_data(FunctionCallInfo fcinfo);
// Raises 39P01 unless the function was called by a trigger on the given table of jobq and with the given timing.
const TriggerData *trigger_on(FunctionCallInfo fcinfo, const char *table, TriggerTiming timing);
[[noreturn]] void serves_only_triggers_of(const char *table);

// Returns the owner of the trigger's table. A trigger function that must check whether the caller has the privileges of
// that owner is not SECURITY DEFINER; it switches to the privileges of the owner after the check (compat/rights.h).
Oid owner_of(const TriggerData *trigger);

// Returns the row after the command; for a DELETE, the deleted row.
inline HeapTuple row_after(const TriggerData *trigger) {
    return TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple;
}

// Returns the number of a column of the trigger's table. Raises 55000 if there is no column of that name.
int column_of(const TriggerData *trigger, const char *name);
// Returns the value of the column in a row, or sets *is_null.
Datum value_in(const TriggerData *trigger, HeapTuple row, const char *column, bool *is_null);

}  // namespace jobq
