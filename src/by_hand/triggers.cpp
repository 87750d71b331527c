// The triggers of jobq's other tables, what all triggers ask first, and the hashes behind lanes, round-robin keys and
// groups.
#include "compat/pg.h"

#include "by_hand/job_row.h"
#include "claim/fairness_policy.h"
#include "claim/round_robin_setting.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "duties/dump_restore.h"
#include "groups/group_policy.h"
#include "job/transaction_log.h"
#include "lanes/lanes.h"
#include "limits/limit_settings.h"
#include "queues/directory.h"
#include "table/early_toast.h"

namespace jobq {

namespace {

// A column of a row of settings; false: NULL.
bool column_in(const TriggerData *trigger, HeapTuple row, const char *column, Datum *value) {
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    const int number = SPI_fnumber(desc, column);
    if (number <= 0)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("table jobq.%s has no column \"%s\"", RelationGetRelationName(trigger->tg_relation), column),
                 errhint("jobq's own columns must stay as they are.")));
    bool null;
    *value = SPI_getbinval(row, desc, number, &null);
    return !null;
}

std::string_view queue_in(const TriggerData *trigger, HeapTuple row) {
    Datum queue;
    return column_in(trigger, row, "queue", &queue) ? view(DatumGetTextPP(queue)) : std::string_view();
}

bool has_round_robin(const TriggerData *trigger, HeapTuple row) {
    Datum value;
    return column_in(trigger, row, "round_robin", &value) && DatumGetBool(value);
}

// Tells whoever waits for a queue that its settings change. Lanes are told of where they are made.
void publish_settings(const TriggerData *trigger) {
    const char *table = RelationGetRelationName(trigger->tg_relation);
    if (strcmp(table, "limit_settings") == 0) slots_freed_at_commit();
    // The worker looks which executors there are to be.
    if (strcmp(table, "handler_settings") == 0) log_due(GetCurrentTimestamp());
    if (strcmp(table, "queue_settings") != 0) return;
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event)) {
        log_settings({});
        return;
    }
    log_settings(queue_in(trigger, trigger->tg_trigtuple));
    if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)) log_settings(queue_in(trigger, trigger->tg_newtuple));
}

// The queue gets round_robin: its jobs get their round-robin keys in the same transaction.
void begin_round_robin(const TriggerData *trigger) {
    if (strcmp(RelationGetRelationName(trigger->tg_relation), "queue_settings") != 0 ||
        !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) || TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
        return;
    const bool update = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
    HeapTuple after = update ? trigger->tg_newtuple : trigger->tg_trigtuple, before = trigger->tg_trigtuple;
    const std::string_view queue = queue_in(trigger, after);
    const bool had = update && has_round_robin(trigger, before) && queue_in(trigger, before) == queue;
    if (has_round_robin(trigger, after) && !had) with_spi([&] { give_round_robin_keys(make_text(queue)); });
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_lane_of);
PGDLLEXPORT Datum jobq_lane_of(PG_FUNCTION_ARGS) {
    // A NULL queue, kind or version is refused by the table's own constraints.
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2)) PG_RETURN_NULL();
    ArrayType *required = PG_ARGISNULL(3) ? nullptr : PG_GETARG_ARRAYTYPE_P(3);
    PG_RETURN_INT64(lane_id(view(PG_GETARG_TEXT_PP(0)), view(PG_GETARG_TEXT_PP(1)), PG_GETARG_INT32(2), required));
}

PG_FUNCTION_INFO_V1(jobq_round_robin_key_of);
PGDLLEXPORT Datum jobq_round_robin_key_of(PG_FUNCTION_ARGS) {
    PG_RETURN_INT64(core::round_robin_key_of(PG_ARGISNULL(0) ? std::string_view() : view(PG_GETARG_TEXT_PP(0))));
}

PG_FUNCTION_INFO_V1(jobq_group_of);
PGDLLEXPORT Datum jobq_group_of(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1)) PG_RETURN_NULL();
    PG_RETURN_INT64(core::group_hash(view(PG_GETARG_TEXT_PP(0)), view(PG_GETARG_TEXT_PP(1))));
}

PG_FUNCTION_INFO_V1(jobq_by_hand);
PGDLLEXPORT Datum jobq_by_hand(PG_FUNCTION_ARGS) {
    // A WHEN condition is prepared in the memory of the execution that asks it.
    PG_RETURN_BOOL(!is_own_query(fcinfo->flinfo->fn_mcxt));
}

// Elsewhere somebody might keep the pointer for longer than what it points to.
PG_FUNCTION_INFO_V1(jobq_apart);
PGDLLEXPORT Datum jobq_apart(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    const Datum value = PG_GETARG_DATUM(0);
    PG_RETURN_DATUM(is_own_query(fcinfo->flinfo->fn_mcxt) ? apart(value) : value);
}

PG_FUNCTION_INFO_V1(jobq_note_restore);
PGDLLEXPORT Datum jobq_note_restore(PG_FUNCTION_ARGS) {
    if (restores(owner_of(trigger_data(fcinfo)))) note_restore();
    return Datum(0);
}

PG_FUNCTION_INFO_V1(jobq_invalidate_caches);
PGDLLEXPORT Datum jobq_invalidate_caches(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = trigger_data(fcinfo);
    invalidate_directory(RelationGetRelid(trigger->tg_relation));
    publish_settings(trigger);
    begin_round_robin(trigger);
    return Datum(0);
}

PG_FUNCTION_INFO_V1(jobq_limits_changed);
PGDLLEXPORT Datum jobq_limits_changed(PG_FUNCTION_ARGS) {
    trigger_data(fcinfo);
    with_spi([] { distrust_limits(); });
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
