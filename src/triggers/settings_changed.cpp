// The triggers on the tables with the settings of queues, limits, handlers, grants, and lanes.
#include "compat/pg.h"

#include "claim/round_robin_setting.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "lanes/lanes.h"
#include "limits/limit_settings.h"
#include "log/transaction_log.h"
#include "queues/directory.h"
#include "triggers/trigger.h"

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

// Wakes the sessions that wait for a queue whose settings have changed. Does not publish new lanes, because the code
// that creates a lane publishes it.
void publish_settings(const TriggerData *trigger) {
    const char *table = RelationGetRelationName(trigger->tg_relation);
    if (strcmp(table, "limit_settings") == 0 || strcmp(table, "named_limit_settings") == 0) slots_freed_at_commit();
    // Requests a round of the background worker, so that the worker checks which executors must run.
    if (strcmp(table, "handler_settings") == 0) log_due(GetCurrentTimestamp());
    if (strcmp(table, "queue_settings") != 0) return;
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event)) {
        log_settings({});
        return;
    }
    log_settings(queue_in(trigger, trigger->tg_trigtuple));
    if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)) log_settings(queue_in(trigger, trigger->tg_newtuple));
}

// If the command might make halted groups continue, requests a search for these groups.
void publish_halts(const TriggerData *trigger) {
    const char *table = RelationGetRelationName(trigger->tg_relation);
    if (strcmp(table, "queue_settings") != 0 && strcmp(table, "kind_settings") != 0) return;
    const auto sets_it = [&](HeapTuple row) {
        bool none;
        value_in(trigger, row, "group_on_failure", &none);
        return !none;
    };
    // The new row of a kind can also replace the setting of its queue.
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) || sets_it(trigger->tg_trigtuple) || sets_it(row_after(trigger)))
        log_unblocked_anywhere(Blocker::Halt);
}

// If the command enables round_robin for the queue, sets the round-robin keys of the queue's jobs in the same
// transaction.
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
    publish_halts(trigger);
    begin_round_robin(trigger);
    return Datum(0);
}

// Sets the number of a lane to the number that the lane has in this database, because the row might come from a dump or
// a publication and contain the number from another database.
PG_FUNCTION_INFO_V1(jobq_number_lane);
PGDLLEXPORT Datum jobq_number_lane(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = trigger_on(fcinfo, "lane_directory", TriggerTiming::BeforeRow);
    HeapTuple row = row_after(trigger);
    bool no_queue, no_kind, no_version, none_required, no_limits;
    const Datum queue = value_in(trigger, row, "queue", &no_queue), kind = value_in(trigger, row, "kind", &no_kind);
    const Datum version = value_in(trigger, row, "version", &no_version);
    const Datum required = value_in(trigger, row, "requires", &none_required);
    const Datum limits = value_in(trigger, row, "limits", &no_limits);
    // Leaves the row unchanged, because a constraint will reject it.
    if (no_queue || no_kind || no_version) return PointerGetDatum(row);
    Datum lane = Int64GetDatum(lane_id(view(DatumGetTextPP(queue)), view(DatumGetTextPP(kind)), DatumGetInt32(version),
                                       none_required ? nullptr : DatumGetArrayTypeP(required),
                                       no_limits ? nullptr : DatumGetArrayTypeP(limits)));
    int column = column_of(trigger, "lane");
    bool is_null = false;
    return PointerGetDatum(
        heap_modify_tuple_by_cols(row, RelationGetDescr(trigger->tg_relation), 1, &column, &lane, &is_null));
}

// Prevents changes to the secret from which numbers are computed, because deleting or replacing the secret would make
// the numbers of all jobs wrong.
PG_FUNCTION_INFO_V1(jobq_keep_secret);
PGDLLEXPORT Datum jobq_keep_secret(PG_FUNCTION_ARGS) {
    trigger_data(fcinfo);
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("the row of table \"jobq.hash_secret\" cannot be changed or deleted"),
         errdetail(
             "The numbers of lanes, groups, and limits in jobq.jobs are hashes that were computed with this secret.")));
    pg_unreachable();
}

PG_FUNCTION_INFO_V1(jobq_limits_changed);
PGDLLEXPORT Datum jobq_limits_changed(PG_FUNCTION_ARGS) {
    trigger_data(fcinfo);
    with_spi([] { distrust_limits(); });
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
