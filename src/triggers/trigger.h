// What the triggers of all tables of jobq ask first.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class TriggerTiming : uint8 { BeforeRow, AfterRow, AfterAny };

// 39P01 unless called as a trigger on a table of jobq's.
const TriggerData *trigger_data(FunctionCallInfo fcinfo);
// The same: on that table, at that time.
const TriggerData *trigger_on(FunctionCallInfo fcinfo, const char *table, TriggerTiming timing);
[[noreturn]] void serves_only_triggers_of(const char *table);

// The owner of its table. A trigger that asks whether the caller is one of his is not SECURITY DEFINER; it takes the
// owner's rights (compat/rights.h) after that.
Oid owner_of(const TriggerData *trigger);

// The row as the command leaves it; that which it deletes.
inline HeapTuple row_after(const TriggerData *trigger) {
    return TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple;
}

// The number of a column of its table, 55000 when there is none of that name.
int column_of(const TriggerData *trigger, const char *name);
// Its value in a row; *is_null or the value.
Datum value_in(const TriggerData *trigger, HeapTuple row, const char *column, bool *is_null);

}  // namespace jobq
