// The triggers on the tables of settings, of queues, limits, handlers, grants and lanes.
#include "compat/pg.h"

#include "by_hand/trigger.h"
#include "claim/round_robin_setting.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "job/transaction_log.h"
#include "limits/limit_settings.h"
#include "queues/directory.h"

namespace jobq {

namespace {

std::string_view queue_in(const TriggerData *trigger, HeapTuple row) {
    bool none;
    const Datum queue = value_in(trigger, row, "queue", &none);
    return none ? std::string_view() : view(DatumGetTextPP(queue));
}

bool has_round_robin(const TriggerData *trigger, HeapTuple row) {
    bool none;
    const Datum value = value_in(trigger, row, "round_robin", &none);
    return !none && DatumGetBool(value);
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
    HeapTuple after = row_after(trigger), before = trigger->tg_trigtuple;
    const std::string_view queue = queue_in(trigger, after);
    const bool had = update && has_round_robin(trigger, before) && queue_in(trigger, before) == queue;
    if (has_round_robin(trigger, after) && !had) with_spi([&] { give_round_robin_keys(make_text(queue)); });
}

}  // namespace

extern "C" {

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
