// See trigger.h.
#include "compat/pg.h"

#include "triggers/trigger.h"

namespace jobq {

namespace {

bool is_at(const TriggerData *trigger, TriggerTiming timing) {
    const TriggerEvent event = trigger->tg_event;
    if (timing == TriggerTiming::BeforeRow) return TRIGGER_FIRED_BEFORE(event) && TRIGGER_FIRED_FOR_ROW(event);
    return TRIGGER_FIRED_AFTER(event) && (timing == TriggerTiming::AfterAny || TRIGGER_FIRED_FOR_ROW(event));
}

}  // namespace

const TriggerData *trigger_data(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("this function can only be called as a trigger")));
    const auto *trigger = reinterpret_cast<const TriggerData *>(fcinfo->context);
    if (RelationGetNamespace(trigger->tg_relation) != get_namespace_oid("jobq", true))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("this function can only be called by triggers that jobq declares on its own tables")));
    return trigger;
}

const TriggerData *trigger_on(FunctionCallInfo fcinfo, const char *table, TriggerTiming timing) {
    const TriggerData *trigger = trigger_data(fcinfo);
    if (!is_at(trigger, timing) || strcmp(RelationGetRelationName(trigger->tg_relation), table) != 0)
        serves_only_triggers_of(table);
    return trigger;
}

void serves_only_triggers_of(const char *table) {
    ereport(ERROR,
            (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
             errmsg("this function can only be called by triggers that jobq declares on table \"jobq.%s\"", table)));
    pg_unreachable();
}

Oid owner_of(const TriggerData *trigger) { return trigger->tg_relation->rd_rel->relowner; }

int column_of(const TriggerData *trigger, const char *name) {
    const int number = SPI_fnumber(RelationGetDescr(trigger->tg_relation), name);
    if (number <= 0)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("table \"jobq.%s\" has no column \"%s\"", RelationGetRelationName(trigger->tg_relation), name),
                 errhint("Undo any changes to jobq's columns.")));
    return number;
}

Datum value_in(const TriggerData *trigger, HeapTuple row, const char *column, bool *is_null) {
    return SPI_getbinval(row, RelationGetDescr(trigger->tg_relation), column_of(trigger, column), is_null);
}

}  // namespace jobq
