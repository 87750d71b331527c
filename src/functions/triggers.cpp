// The triggers of jobq's tables, and the hash behind the lanes: they make a plain INSERT, COPY or UPDATE by a DBA as
// good as a call.
#include "pg/pg.h"

#include "core/retry.h"
#include "pg/args.h"
#include "pg/spi.h"
#include "shared/counting.h"
#include "shared/publish.h"
#include "shared/slots.h"
#include "store/depth.h"
#include "store/directory.h"
#include "store/enqueue.h"
#include "store/finish.h"

namespace jobq {

namespace {

const TriggerData *trigger_data(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("this function can only be called as a trigger")));
    return reinterpret_cast<const TriggerData *>(fcinfo->context);
}

// 39P01 unless the trigger is the one that the extension declares: a row trigger of jobq.jobs for this event.
const TriggerData *job_trigger(FunctionCallInfo fcinfo, TriggerEvent event, bool before) {
    const TriggerData *trigger = trigger_data(fcinfo);
    const bool fits = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) && (trigger->tg_event & TRIGGER_EVENT_OPMASK) == event &&
                      (before ? TRIGGER_FIRED_BEFORE(trigger->tg_event) : TRIGGER_FIRED_AFTER(trigger->tg_event)) &&
                      strcmp(RelationGetRelationName(trigger->tg_relation), "jobs") == 0 &&
                      RelationGetNamespace(trigger->tg_relation) == get_namespace_oid("jobq", true);
    if (!fits)
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("this function serves only the triggers that jobq declares on jobq.jobs")));
    return trigger;
}

// The columns of a row of jobq.jobs, by name: an upgrade may add columns at the end. What set() makes lives in the
// memory context that was current when the row was taken: every SPI call on the way switches to one that dies with it.
class JobRow {
 public:
    JobRow(HeapTuple tuple, TupleDesc desc) : tuple_(tuple), desc_(desc), context_(CurrentMemoryContext) {}

    Datum get(const char *column, bool *is_null) const { return SPI_getbinval(tuple_, desc_, number(column), is_null); }
    bool has(const char *column) const {
        bool null;
        get(column, &null);
        return !null;
    }
    Datum get(const char *column) const {
        bool null;
        return get(column, &null);
    }
    void set(const char *column, Datum value) { set_or_clear(column, true, value); }
    void set_or_clear(const char *column, bool present, Datum value) {
        int at = number(column);
        bool null = !present;
        MemoryContext inner = MemoryContextSwitchTo(context_);
        tuple_ = heap_modify_tuple_by_cols(tuple_, desc_, 1, &at, &value, &null);
        MemoryContextSwitchTo(inner);
    }
    void clear(const char *column) { set_or_clear(column, false, Datum(0)); }
    void default_to(const char *column, Datum value) {
        if (!has(column)) set(column, value);
    }
    HeapTuple tuple() const { return tuple_; }

 private:
    int number(const char *column) const {
        const int found = SPI_fnumber(desc_, column);
        if (found <= 0) elog(ERROR, "jobq: jobq.jobs has no column \"%s\"", column);
        return found;
    }
    HeapTuple tuple_;
    TupleDesc desc_;
    MemoryContext context_;
};

std::string_view text_of(const JobRow &row, const char *column) { return view(DatumGetTextPP(row.get(column))); }

// A claim adds one: the sum must fit.
void check_count(const JobRow &row, const char *column) {
    const int32 count = DatumGetInt32(row.get(column));
    if (count < 0 || count > core::kMaxAttempts)
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("column \"%s\" is out of range: %d", column, count),
                        errhint("It counts from 0 to %d.", core::kMaxAttempts)));
}

// What constraints would check, if they were free.
void check_row(const JobRow &row) {
    check_queue_name(text_of(row, "queue"), "queue");
    check_name(text_of(row, "kind"), "kind", core::kMaxKindBytes, true);
    check_positive(DatumGetInt32(row.get("max_attempts")), "max_attempts");
    check_finite(DatumGetTimestampTz(row.get("run_at")), "run_at");
    check_count(row, "attempts");
    check_count(row, "lost_attempts");
    for (const char *reserved : {"unique_key", "group_key", "concurrency_key", "max_runtime"})
        if (row.has(reserved)) unsupported_argument(reserved);
    if (row.has("heartbeat_timeout")) check_heartbeat_timeout(DatumGetIntervalP(row.get("heartbeat_timeout")));
}

// The row's lane, entered into the directory.
int64 lane_of(const JobRow &row) {
    return ensure_lane(text_of(row, "queue"), text_of(row, "kind"), DatumGetInt32(row.get("version")),
                       row.has("requires") ? DatumGetArrayTypeP(row.get("requires")) : nullptr);
}

// A value of the column's own enum type, so that no name is looked up.
Datum status_value(TupleDesc desc, core::JobStatus status) {
    const Oid type = SPI_gettypeid(desc, SPI_fnumber(desc, "status"));
    return DirectFunctionCall2(enum_in, CStringGetDatum(core::status_name(status)), ObjectIdGetDatum(type));
}

core::JobStatus status_of(const JobRow &row) {
    core::JobStatus status = core::JobStatus::Pending;
    core::parse_status(DatumGetCString(DirectFunctionCall1(enum_out, row.get("status"))), &status);
    return status;
}

// An INSERT by hand needs room as an enqueue does.
void ask_for_room(const JobRow &row) {
    const std::string_view name = text_of(row, "queue");
    const Queue *queue = find_queue(name);
    if (queue->max_depth > 0 && core::is_waiting(status_of(row))) make_room(name, *queue, 1, GetCurrentTimestamp());
}

void fill(JobRow *row, TupleDesc desc) {
    const TimestampTz now = GetCurrentTimestamp();
    row->default_to("created_at", TimestampTzGetDatum(now));
    row->default_to("kind", PointerGetDatum(make_text("")));
    row->default_to("payload", DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
    row->default_to("priority", Int16GetDatum(0));
    row->default_to("version", Int32GetDatum(0));
    row->default_to("attempts", Int32GetDatum(0));
    row->default_to("lost_attempts", Int32GetDatum(0));
    row->default_to("run_at", TimestampTzGetDatum(now));
    if (!row->has("max_attempts"))
        row->set("max_attempts", Int32GetDatum(find_queue(text_of(*row, "queue"))->max_attempts));
    if (!row->has("status"))
        row->set("status", status_value(desc, core::waiting_status(DatumGetTimestampTz(row->get("run_at")), now)));
}

// What follows from other columns is set whatever the INSERT says: a dump may come from a database with another
// encoding, whose lanes have other ids. Leases and times are kept where they make sense.
void derive(JobRow *row, TupleDesc desc) {
    const Datum run_at = row->get("run_at");
    const Datum now = TimestampTzGetDatum(GetCurrentTimestamp());
    core::JobStatus status = status_of(*row);
    // Pending means claimable now.
    const core::Micros due = DatumGetTimestampTz(run_at);
    if (status == core::JobStatus::Pending && due > DatumGetTimestampTz(now)) {
        status = core::JobStatus::Scheduled;
        row->set("status", status_value(desc, status));
    }
    row->set("lane", Int64GetDatum(lane_of(*row)));
    row->set_or_clear("ready_at", status == core::JobStatus::Pending, run_at);
    row->set_or_clear("due_at", status == core::JobStatus::Scheduled, run_at);
    const bool running = status == core::JobStatus::Processing;
    row->set_or_clear("watched", running, BoolGetDatum(true));
    if (core::is_finished(status)) row->default_to("finished_at", now);
    // The transaction of that number is another cluster's, if this comes from a dump.
    row->clear("claim_xid");
    if (!running) {
        row->clear("lease");
        return;
    }
    row->default_to("last_heartbeat", now);
    if (!row->has("lease_timeout"))
        row->set("lease_timeout",
                 row->has("heartbeat_timeout")
                     ? row->get("heartbeat_timeout")
                     : IntervalPGetDatum(make_interval(find_queue(text_of(*row, "queue"))->heartbeat_timeout)));
}

// Tells whoever waits for jobs of a row as it is now: what others' triggers have made of it is what claims will find.
void publish_row(const JobRow &row) {
    if (row.has("ready_at"))
        publish_ready_at_commit(text_of(row, "queue"), DatumGetInt64(row.get("lane")),
                                {DatumGetTimestampTz(row.get("ready_at")), DatumGetInt64(row.get("id")),
                                 DatumGetInt16(row.get("priority"))});
    publish_due_at_commit(DatumGetTimestampTz(row.get("run_at")));
}

// Tells whoever waits for a job of what became of it by an UPDATE.
void publish_end(const JobRow &before, const JobRow &after) {
    const int64 id = DatumGetInt64(before.get("id"));
    if (core::is_finished(status_of(after)) || DatumGetInt64(after.get("id")) != id) publish_finished_at_commit(id);
}

// Tells whoever waits for a queue that its settings change. Lanes are told of where they are made.
void publish_settings(const TriggerData *trigger) {
    if (strcmp(RelationGetRelationName(trigger->tg_relation), "queue_settings") != 0) return;
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event)) {
        publish_settings_at_commit({});
        return;
    }
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    publish_settings_at_commit(text_of(JobRow(trigger->tg_trigtuple, desc), "queue"));
    if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
        publish_settings_at_commit(text_of(JobRow(trigger->tg_newtuple, desc), "queue"));
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

PG_FUNCTION_INFO_V1(jobq_fill_job);
PGDLLEXPORT Datum jobq_fill_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_INSERT, true);
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    JobRow row(trigger->tg_trigtuple, desc);
    // Before the lane is missed, which nobody who leaves the queue out has heard of.
    if (!row.has("queue"))
        ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
                        errmsg("null value in column \"queue\" of relation \"jobs\" violates not-null constraint"),
                        errtablecol(trigger->tg_relation, SPI_fnumber(desc, "queue"))));
    check_queue_name(text_of(row, "queue"), "queue");
    with_spi([&] {
        // A row that brings its lane is from a dump: a restore must not fail for a limit.
        const bool is_new = !row.has("lane");
        fill(&row, desc);
        check_row(row);
        if (is_new) ask_for_room(row);
        derive(&row, desc);
    });
    return PointerGetDatum(row.tuple());
}

// After the insert, not before it like fill_job: ON CONFLICT or another trigger may leave the row out.
PG_FUNCTION_INFO_V1(jobq_count_job);
PGDLLEXPORT Datum jobq_count_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_INSERT, false);
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    const JobRow row(trigger->tg_trigtuple, desc);
    count_inserts_at_commit(text_of(row, "queue"), status_of(row), 1);
    if (row.has("watched")) publish_lease_deadline_at_commit(DT_NOBEGIN);
    publish_row(row);
    return PointerGetDatum(nullptr);
}

// Of replicated changes, nothing of which is counted or checked.
PG_FUNCTION_INFO_V1(jobq_tell_job);
PGDLLEXPORT Datum jobq_tell_job(PG_FUNCTION_ARGS) {
    const bool update = TRIGGER_FIRED_BY_UPDATE(trigger_data(fcinfo)->tg_event);
    const TriggerData *trigger = job_trigger(fcinfo, update ? TRIGGER_EVENT_UPDATE : TRIGGER_EVENT_INSERT, false);
    const JobRow row(update ? trigger->tg_newtuple : trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    if (row.has("ready_at") || row.has("due_at")) publish_row(row);
    if (update) publish_end(JobRow(trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation)), row);
    return PointerGetDatum(nullptr);
}

PG_FUNCTION_INFO_V1(jobq_follow_job);
PGDLLEXPORT Datum jobq_follow_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_UPDATE, false);
    const JobRow row(trigger->tg_newtuple, RelationGetDescr(trigger->tg_relation));
    check_row(row);
    // Up to what the statement left behind; settle_job() counts what it changes itself.
    const JobRow before(trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    count_move_at_commit(text_of(before, "queue"), status_of(before), text_of(row, "queue"), status_of(row));
    with_spi([&] {
        const int64 lane = lane_of(row);
        settle_job(DatumGetInt64(row.get("id")), lane, find_queue(text_of(row, "queue"))->heartbeat_timeout);
    });
    publish_end(before, row);
    publish_due_at_commit(DatumGetTimestampTz(row.get("run_at")));
    publish_lease_deadline_at_commit(DT_NOBEGIN);
    doubt_heartbeats();
    return PointerGetDatum(nullptr);
}

PG_FUNCTION_INFO_V1(jobq_forget_job);
PGDLLEXPORT Datum jobq_forget_job(PG_FUNCTION_ARGS) {
    if (TRIGGER_FIRED_BY_TRUNCATE(trigger_data(fcinfo)->tg_event)) {
        with_spi([] { delete_all_attempts(); });
        recount_at_commit();
        publish_finished_anywhere_at_commit();
    } else {
        const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_DELETE, false);
        TupleDesc desc = RelationGetDescr(trigger->tg_relation);
        const JobRow row(trigger->tg_trigtuple, desc);
        count_deletes_at_commit(text_of(row, "queue"), status_of(row), 1);
        Datum id = row.get("id");
        publish_finished_at_commit(DatumGetInt64(id));
        with_spi([&] { delete_attempts(&id, 1); });
    }
    return PointerGetDatum(nullptr);
}

PG_FUNCTION_INFO_V1(jobq_by_hand);
PGDLLEXPORT Datum jobq_by_hand(PG_FUNCTION_ARGS) {
    (void)fcinfo;
    PG_RETURN_BOOL(!own_statement());
}

PG_FUNCTION_INFO_V1(jobq_directory_changed);
PGDLLEXPORT Datum jobq_directory_changed(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = trigger_data(fcinfo);
    invalidate_directory(RelationGetRelid(trigger->tg_relation));
    publish_settings(trigger);
    return PointerGetDatum(nullptr);
}

}  // extern "C"

}  // namespace jobq
